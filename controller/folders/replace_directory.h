// Replaces a directory by a finished one, so that a crash loses neither.
#ifndef COXSWAIN_CONTROLLER_FOLDERS_REPLACE_DIRECTORY_H_
#define COXSWAIN_CONTROLLER_FOLDERS_REPLACE_DIRECTORY_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "controller/runtime/files.h"

namespace coxswain {

// Ending of the name that the replaced directory bears between the two renames.
inline constexpr char kReplacedEnding[] = ".replaced";

// Moves `target`, if it exists, aside to `finished`.replaced. Then moves `finished` to `target`.
// Then removes the old directory. A reader sees the old or the new one, for a moment neither, never
// a mixture. After a crash, or an error that could not be undone, RestoreReplaced makes `target`
// whole. `may_go` is asked about the directory that was moved aside, where no other program finds
// it. If it returns an error, the directory is moved back. It is also asked about a directory that
// an earlier call left aside. If it returns an error for that, nothing is moved.
absl::Status ReplaceDirectory(Files* files, const std::string& finished, const std::string& target,
                              const std::function<absl::Status(const std::string& aside)>& may_go);

// Cleans up after a ReplaceDirectory that did not finish and left `aside`. If `target` is missing,
// `aside` is moved back. Else `aside` is removed, unless `may_go` returns an error.
absl::Status RestoreReplaced(Files* files, const std::string& aside, const std::string& target,
                             const std::function<absl::Status(const std::string& aside)>& may_go);

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_FOLDERS_REPLACE_DIRECTORY_H_
