// A folder as a commit of a repository of the Hub.
#ifndef COXSWAIN_COMMON_HUB_UPLOAD_PUSH_H_
#define COXSWAIN_COMMON_HUB_UPLOAD_PUSH_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/hub/api/hub_settings.h"
#include "common/hub/api/repository.h"
#include "common/hub/download_options.h"

namespace coxswain::hub {

struct PushRequest {
  Repository repository;   // "org/name"; its revision is a branch, and is made where there is none
  bool is_private = true;  // of a repository that is made; one that is public is then refused
  std::string folder;
  std::vector<std::string> files;  // below it, as FilesOf names them
  std::string card = {};  // README.md where neither files nor repository have one; empty: none
  std::string message = "Upload with Coxswain";  // of the commit
};

struct PushHooks {
  std::function<bool()> cancelled = {};  // asked ten times a second
  // At most ten times a second, and at the end. On the caller's thread, as everything here.
  std::function<void(const Progress& progress)> progress = {};
};

struct Pushed {
  std::string commit;      // of the branch, which has all files as they are here
  std::string url;         // of it, for people
  bool committed = false;  // false: the branch had them all already
  int64_t files = 0;
  int64_t sent_bytes = 0;                 // of contents, over the network, by this call
  std::vector<std::string> ignored = {};  // files that the repository's .gitignore leaves out
};

// InvalidArgument: no owner in the name, or a commit in the place of a branch.
absl::Status CheckPushable(const Repository& repository);

// Makes repository and branch where they are not there, and one commit with those of the files that
// the branch has not. Other files of it stay. Contents that the Hub has are not sent again, so that
// a call that failed or was killed is continued by the next, and one that is repeated makes no
// commit. Memory: less than 512 MiB, whatever the files are.
//
// Errors as PushFailureOf, and:
// - InvalidArgument: as CheckPushable, no file, a link;
// - FailedPrecondition: the repository is public and `is_private`, HF_HUB_OFFLINE is set, or more
//   than 64 MiB of files lie outside LFS;
// - Unauthenticated: there is no token;
// - Aborted: a file changed meanwhile, or others commit to the branch all the time;
// - DataLoss: what answers is no Hub;
// - Cancelled; and errors of files as ErrnoStatus.
absl::StatusOr<Pushed> PushFolder(const Settings& settings, const PushRequest& request,
                                  const PushHooks& hooks);

}  // namespace coxswain::hub

#endif  // COXSWAIN_COMMON_HUB_UPLOAD_PUSH_H_
