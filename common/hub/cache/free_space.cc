#include "common/hub/cache/free_space.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/format.h"

namespace coxswain::hub {

std::optional<int64_t> FreeBytes(const std::string& folder) {
  struct statvfs found {};
  std::filesystem::path there = folder;
  while (statvfs(there.c_str(), &found) != 0) {
    if (!there.has_relative_path()) return std::nullopt;
    there = there.parent_path();
  }
  if (found.f_blocks == 0) return std::nullopt;
  return static_cast<int64_t>(found.f_bavail * found.f_frsize);
}

int64_t AllocatedBytes(const std::string& path) {
  constexpr int64_t kBlockBytes = 512;  // of st_blocks, whatever the file system
  struct stat found {};
  return stat(path.c_str(), &found) == 0 ? found.st_blocks * kBlockBytes : 0;
}

absl::Status DiskFull(const std::string& folder, int64_t needed, const std::string& what) {
  const std::optional<int64_t> free = FreeBytes(folder);
  return absl::ResourceExhaustedError(absl::StrCat(
      "the disk of ", folder, " is full: ", what, " needs ",
      FormatBytes(static_cast<uint64_t>(needed)), " more, ",
      free ? FormatBytes(static_cast<uint64_t>(*free)) : "fewer", " are free: make room, or set ",
      "HF_HOME to a larger disk; what has come is kept, and the next download goes on there"));
}

}  // namespace coxswain::hub
