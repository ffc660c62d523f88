// Paths of a job: local files only, made absolute.
#ifndef COXSWAIN_COMMON_CONFIG_LOCAL_PATH_H_
#define COXSWAIN_COMMON_CONFIG_LOCAL_PATH_H_

#include <string>

#include "absl/status/statusor.h"

namespace coxswain::config {

// `text` against `base_dir`, normalised lexically (no file is looked at). InvalidArgument for URLs
// and hub ids ("download first"), ${...}, ~ and, with an empty base_dir, any relative path. A
// relative path with one slash and no file extension reads as a hub id; ./a/b is a path.
absl::StatusOr<std::string> ResolveLocalPath(const std::string& text, const std::string& base_dir);

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_LOCAL_PATH_H_
