// A whole file as bytes.
#ifndef COXSWAIN_COMMON_FILES_READ_FILE_H_
#define COXSWAIN_COMMON_FILES_READ_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace coxswain {

// What `path` holds until its end; its size is not asked for, so that files of /proc and pipes are
// read too. Errors as ErrnoStatus; they name `path`.
absl::StatusOr<std::string> ReadFile(const std::string& path);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_READ_FILE_H_
