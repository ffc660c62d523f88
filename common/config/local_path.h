// Paths of a job: local files only, made absolute.
#ifndef COXSWAIN_COMMON_CONFIG_LOCAL_PATH_H_
#define COXSWAIN_COMMON_CONFIG_LOCAL_PATH_H_

#include <string>

#include "absl/status/statusor.h"

namespace coxswain::config {

enum class PathUse {
  kRead,     // a file or folder that the job reads
  kHub,      // the same, where people write ids of the Hugging Face Hub, which are not read here
  kWritten,  // a folder that the job writes to
};

// `text` against `base_dir`, normalised lexically. The one rule for every path of a job:
// - What exists is a path, whatever it looks like.
// - Else InvalidArgument for URLs, for a leading ~ and for $NAME or ${NAME}, which ExpandPaths has
//   replaced where it could, and with PathUse::kHub for "org/name" ("download first").
// - With an empty base_dir (a controller that runs elsewhere) any relative path is refused.
absl::StatusOr<std::string> ResolveLocalPath(const std::string& text, const std::string& base_dir,
                                             PathUse use);

// Where the first ~ or $ stands that means more than itself: a leading ~, $NAME, ${. npos: nowhere.
size_t FindExpansion(const std::string& text);

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_LOCAL_PATH_H_
