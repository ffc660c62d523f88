#include "worker/supervisor/find_binary.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace coxswain::supervisor {

std::string FindInPath(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream directories(path == nullptr ? "" : path);
  for (std::string directory; std::getline(directories, directory, ':');) {
    std::string candidate = absl::StrCat(directory, "/", name);
    if (!directory.empty() && access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

absl::StatusOr<std::string> FindBinary(const std::string& name) {
  std::error_code error;
  const auto here = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  const auto libexec = here.parent_path() / "libexec" / "coxswain";
  for (const auto& directory : {here, libexec}) {
    std::string candidate = (directory / name).string();
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  std::string found = FindInPath(name);
  if (!found.empty()) return found;
  return absl::NotFoundError(absl::StrCat(name, " is neither in ", here.string(), " nor in ",
                                          libexec.string(), " nor in PATH"));
}

}  // namespace coxswain::supervisor
