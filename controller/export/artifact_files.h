// Files of the base model that artifacts take over.
#ifndef COXSWAIN_CONTROLLER_EXPORT_ARTIFACT_FILES_H_
#define COXSWAIN_CONTROLLER_EXPORT_ARTIFACT_FILES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace coxswain::exports {

// Copies, byte for byte, each of `names` that `from` has; absent ones are skipped.
absl::Status CopyFilesThatExist(const std::string& from, const std::string& to,
                                const std::vector<std::string>& names);

}  // namespace coxswain::exports

#endif  // COXSWAIN_CONTROLLER_EXPORT_ARTIFACT_FILES_H_
