// Replaces and deletes folders that jobs wrote, only if nobody changed them since.
#ifndef COXSWAIN_CONTROLLER_FOLDERS_WRITTEN_FOLDER_H_
#define COXSWAIN_CONTROLLER_FOLDERS_WRITTEN_FOLDER_H_

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/folders/folder_finding.h"
#include "controller/runtime/files.h"

namespace coxswain {

// How many bytes may still be read of files whose time stamp differs from the recorded one.
struct ReadingLimit {
  int64_t bytes = std::numeric_limits<int64_t>::max();
};

// A file is unchanged if it has the recorded size, and the recorded time stamp or digests. Files of
// at most 1 MiB are always read. A file that `limit` leaves unread counts as unchanged. Errors are
// the file system's.
absl::StatusOr<Finding> LookAtFolder(Files* files, const WrittenFolder& folder,
                                     ReadingLimit* limit);

// FailedPrecondition names the reason why the folder may not go. Reads every file that it must.
absl::StatusOr<Finding> CheckMayGo(Files* files, const WrittenFolder& folder);

// Replaces `folder` by `finished` and returns what was replaced. Errors as CheckMayGo. CheckMayGo
// is asked again when the folder has been moved aside, where nobody finds it. On its error the
// folder is moved back.
absl::StatusOr<Finding> ReplaceWritten(Files* files, const std::string& finished,
                                       const WrittenFolder& folder);
// Moves `folder` to `aside`, which must not exist, and deletes it. Errors as ReplaceWritten.
absl::Status RemoveWritten(Files* files, const WrittenFolder& folder, const std::string& aside);

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_FOLDERS_WRITTEN_FOLDER_H_
