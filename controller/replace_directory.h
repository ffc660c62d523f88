// Puts a finished directory in the place of another, so that a crash loses neither.
#ifndef COXSWAIN_CONTROLLER_REPLACE_DIRECTORY_H_
#define COXSWAIN_CONTROLLER_REPLACE_DIRECTORY_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "controller/files.h"

namespace coxswain {

// Ending of the name that the replaced directory bears between the two renames.
inline constexpr char kReplacedEnding[] = ".replaced";

// Moves `target`, where it exists, aside to `finished`.replaced, then `finished` to `target`, then
// removes what is aside. A reader sees the old or the new one, for a moment neither, never a
// mixture. After a crash, or an error that could not be undone, RestoreReplaced makes `target`
// whole. `may_go` is asked about what was moved aside, where no other program finds it any more:
// with its error the target goes back. It is also asked about what an earlier one left aside: with
// its error nothing is moved.
absl::Status ReplaceDirectory(Files* files, const std::string& finished, const std::string& target,
                              const std::function<absl::Status(const std::string& aside)>& may_go);

// `aside` is what a ReplaceDirectory that did not end has left: back to `target` where that is
// missing, else away, unless `may_go` has an error, which is returned.
absl::Status RestoreReplaced(Files* files, const std::string& aside, const std::string& target,
                             const std::function<absl::Status(const std::string& aside)>& may_go);

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_REPLACE_DIRECTORY_H_
