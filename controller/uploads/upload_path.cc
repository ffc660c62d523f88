#include "controller/uploads/upload_path.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/config/named_sources.h"
#include "common/outside_text.h"

namespace coxswain::uploads {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostNameOnDisk = 255;  // NAME_MAX
constexpr size_t kDigits = 64;

bool IsDigest(std::string_view text) {
  return text.size() == kDigits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

bool IsFile(const std::string& path) {
  struct stat found {};
  return lstat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode);
}

// Folders in which a job of `owner` looks.
std::vector<std::string> FoldersOf(const std::string& root, const std::string& owner) {
  std::vector<std::string> folders = {OwnerFolder(root, owner)};
  if (!owner.empty()) return folders;
  std::error_code error;
  for (fs::directory_iterator entry(root, error), end; !error && entry != end;
       entry.increment(error)) {
    folders.push_back(entry->path().string());
  }
  std::sort(folders.begin() + 1, folders.end());
  return folders;
}

}  // namespace

bool IsUploadName(std::string_view name) {
  return !name.empty() && name.size() <= kMostNameOnDisk && name != "." && name != ".." &&
         name.find('/') == name.npos && OneLine(name, 4 * kMostNameOnDisk + 64) == name;
}

std::string UploadText(const Upload& upload) {
  return absl::StrCat(std::string(config::kUploadScheme), upload.sha256, "/", upload.name);
}

std::string OwnerFolder(const std::string& root, const std::string& owner) {
  return owner.empty() ? root + "/operators" : absl::StrCat(root, "/user-", owner);
}

std::string UploadsFolder(const std::string& state_dir) { return state_dir + "/uploads"; }

absl::StatusOr<std::string> ResolveUpload(const std::string& state_dir, const std::string& owner,
                                          const std::string& text) {
  const std::string shown = OneLine(text, 2 * kMostNameBytes);
  const std::string rest =
      text.starts_with(config::kUploadScheme) ? text.substr(config::kUploadScheme.size()) : "";
  const std::string digest = rest.substr(0, rest.find('/'));
  const std::string name = digest.size() < rest.size() ? rest.substr(digest.size() + 1) : "";
  if (!IsDigest(digest) || !IsUploadName(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat(shown, " names no upload: write it as `cox upload FILE` printed it, ",
                     std::string(config::kUploadScheme), "SHA256/NAME"));
  }
  std::error_code error;
  const std::string root = UploadsFolder(fs::absolute(state_dir, error).lexically_normal());
  for (const std::string& folder : FoldersOf(root, owner)) {
    const std::string path = absl::StrCat(folder, "/", digest, "/", name);
    if (IsFile(path)) return path;
  }
  return absl::NotFoundError(absl::StrCat(
      shown, ": no such upload of ", owner.empty() ? std::string("anybody") : "user " + owner,
      ": bring it with `cox upload ", name, "`, as whoever submits the job"));
}

}  // namespace coxswain::uploads
