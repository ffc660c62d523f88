// What may be done to the folders that jobs wrote: only what nobody changed since goes.
#ifndef COXSWAIN_CONTROLLER_WRITTEN_FOLDER_H_
#define COXSWAIN_CONTROLLER_WRITTEN_FOLDER_H_

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/files.h"
#include "controller/folder_finding.h"

namespace coxswain {

// How many bytes may still be read of files whose time stamp is not the recorded one.
struct ReadingLimit {
  int64_t bytes = std::numeric_limits<int64_t>::max();
};

// A file is what a job wrote where its size is the recorded one, and its time stamp is too or its
// bytes have the recorded digests. One of at most 1 MiB is always read. One that `limit` leaves
// unread counts as unchanged. Errors are the file system's.
absl::StatusOr<Finding> LookAtFolder(Files* files, const WrittenFolder& folder,
                                     ReadingLimit* limit);

// FailedPrecondition, naming what is wrong, unless it may_go. Reads what it must.
absl::StatusOr<Finding> CheckMayGo(Files* files, const WrittenFolder& folder);

// Puts `finished` in the place of `folder`, and says what was replaced. Errors as CheckMayGo, which
// is asked again when the folder has been moved aside, where nobody finds it: then it goes back.
absl::StatusOr<Finding> ReplaceWritten(Files* files, const std::string& finished,
                                       const WrittenFolder& folder);
// Deletes `folder` by way of `aside`, which does not exist; else as ReplaceWritten.
absl::Status RemoveWritten(Files* files, const WrittenFolder& folder, const std::string& aside);

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_WRITTEN_FOLDER_H_
