// A folder for what only its user may read: the store, logs, endpoints.
#ifndef COXSWAIN_COMMON_FILES_PRIVATE_FOLDER_H_
#define COXSWAIN_COMMON_FILES_PRIVATE_FOLDER_H_

#include <string>

#include "absl/status/status.h"

namespace coxswain {

// Makes `path` with mode 0700 and the folders above it that are missing as the umask has them. A
// folder that is there keeps its mode, for it may be shared on purpose or hold other files. Errors
// as ErrnoStatus; they name `path`.
absl::Status MakePrivateFolder(const std::string& path);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_PRIVATE_FOLDER_H_
