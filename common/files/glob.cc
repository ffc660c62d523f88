#include "common/files/glob.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "common/posix_status.h"
#include "common/status_macros.h"

namespace coxswain {
namespace {

namespace fs = std::filesystem;

constexpr char kWild[] = "*?[";

// Names below one folder, against the components of a pattern.
class GlobSearch {
 public:
  explicit GlobSearch(std::vector<std::string> components) : components_(std::move(components)) {}

  absl::Status Enter(const fs::path& folder, size_t component) {
    if (component == components_.size()) return absl::OkStatus();
    const std::string& wanted = components_[component];
    if (wanted == "**") RETURN_IF_ERROR(Enter(folder, component + 1));
    std::error_code error;
    fs::directory_iterator entries(folder, error);
    for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
      RETURN_IF_ERROR(Visit(*entries, component));
    }
    if (!error || error == std::errc::no_such_file_or_directory ||
        error == std::errc::not_a_directory) {
      return absl::OkStatus();
    }
    return ErrnoStatus(error.value(), "list", folder.string());
  }

  std::vector<std::string> Found() {
    std::sort(found_.begin(), found_.end());
    found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
    return std::move(found_);
  }

 private:
  absl::Status Visit(const fs::directory_entry& entry, size_t component) {
    std::error_code unreadable;  // then it is neither
    const bool folder = entry.is_directory(unreadable);
    const std::string name = entry.path().filename().string();
    if (components_[component] == "**") {
      if (!folder || name[0] == '.' || entry.is_symlink(unreadable)) return absl::OkStatus();
      return Enter(entry.path(), component);
    }
    if (fnmatch(components_[component].c_str(), name.c_str(), FNM_PERIOD) != 0) {
      return absl::OkStatus();
    }
    if (folder) return Enter(entry.path(), component + 1);
    if (component + 1 == components_.size()) found_.push_back(entry.path().string());
    return absl::OkStatus();
  }

  const std::vector<std::string> components_;
  std::vector<std::string> found_;
};

}  // namespace

bool IsGlob(const std::string& path) { return path.find_first_of(kWild) != std::string::npos; }

std::string GlobBase(const std::string& pattern) {
  const size_t wild = pattern.find_first_of(kWild);
  if (wild == std::string::npos) return pattern;
  const size_t slash = pattern.rfind('/', wild);
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : pattern.substr(0, slash);
}

absl::StatusOr<std::vector<std::string>> FilesMatching(const std::string& pattern) {
  const fs::path base = GlobBase(pattern);
  std::vector<std::string> components;
  for (const fs::path& part : fs::path(pattern).lexically_relative(base)) {
    components.push_back(part.string());
  }
  // A last component of ** alone means the files below.
  if (!components.empty() && components.back() == "**") components.push_back("*");
  GlobSearch search(std::move(components));
  RETURN_IF_ERROR(search.Enter(base, 0));
  return search.Found();
}

}  // namespace coxswain
