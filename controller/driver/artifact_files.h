// Directory operations that artifacts are made of.
#ifndef COXSWAIN_CONTROLLER_DRIVER_ARTIFACT_FILES_H_
#define COXSWAIN_CONTROLLER_DRIVER_ARTIFACT_FILES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace coxswain::driver {

// Copies, byte for byte, each of `names` that `from` has; absent ones are skipped.
absl::Status CopyFilesThatExist(const std::string& from, const std::string& to,
                                const std::vector<std::string>& names);

// Puts the finished directory `staging` in place of `target` (which may exist): a reader sees the
// old or the new one, for a moment neither, never a mixture. Errors name the path.
absl::Status ReplaceDirectory(const std::string& staging, const std::string& target);

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_ARTIFACT_FILES_H_
