// A repository of the Hub as a folder: asked for, downloaded, found again.
#ifndef COXSWAIN_COMMON_HUB_DOWNLOAD_H_
#define COXSWAIN_COMMON_HUB_DOWNLOAD_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/hub/api/hub_settings.h"
#include "common/hub/api/repository.h"
#include "common/hub/api/repository_listing.h"
#include "common/hub/download_options.h"

namespace coxswain::hub {

struct ResolvedCommit {
  std::string commit;
  // OK: the Hub said so, or the revision is a commit. Else why it was not asked or did not answer,
  // and the commit is what the cache has for the revision.
  absl::Status from_cache = {};
};

// The commit of `repository.revision` now, by one question to the Hub. Offline, or where the Hub
// cannot be reached, that of the cache. Errors as AskCommit; NotFound: neither offline nor in the
// cache.
absl::StatusOr<ResolvedCommit> ResolveCommit(const Settings& settings, const Repository& repository,
                                             const std::function<bool()>& cancelled = {});

// Every file of `commit`, by one question that the cache keeps. Offline, or where the Hub cannot be
// reached, what the cache knows. Errors as AskFiles; NotFound: the cache knows nothing.
absl::StatusOr<std::vector<HubFile>> ListFiles(const Settings& settings,
                                               const Repository& repository,
                                               const std::string& commit,
                                               const std::function<bool()>& cancelled = {});

// Notes in `refs` that `repository.revision` is `commit`, so that ResolveCommit finds it offline.
// Errors as ErrnoStatus: the cache is read only.
absl::Status NoteRevision(const Settings& settings, const Repository& repository,
                          const std::string& commit);

// Asks the Hub for the small file `path` of `commit`, whatever the cache has: whether the token of
// `settings` may read the repository. Errors as AskApi.
absl::Status CheckAccess(const Settings& settings, const Repository& repository,
                         const std::string& commit, const std::string& path,
                         const std::function<bool()>& cancelled = {});

struct Snapshot {
  std::string path;  // the folder, absolute
  std::string commit;
  std::vector<HubFile> files = {};  // that were wanted; all are below `path`
  int64_t fetched_bytes = 0;        // by this call, over the network
};

// The files of `commit` that are wanted, in the cache: downloads what is missing, with every byte
// verified, and notes the commit for `repository.revision`. Processes that want the same file
// download it once. A call that failed or was killed is continued by the next.
//
// Errors as FailureOf, and:
// - NotFound: no file is wanted, or offline and files are missing (they are named);
// - ResourceExhausted: the disk is full; folder, bytes needed and bytes free are named;
// - DataLoss: a file came twice with another hash than the Hub says;
// - Cancelled; and errors of files as ErrnoStatus.
absl::StatusOr<Snapshot> Download(const Settings& settings, const Repository& repository,
                                  const std::string& commit, const DownloadOptions& options);

// The folder of `commit` in the cache, whether it is there or not. Absolute.
std::string SnapshotFolder(const Settings& settings, const Repository& repository,
                           const std::string& commit);

// The same without a network. NotFound names what the cache lacks.
absl::StatusOr<Snapshot> FindSnapshot(const Settings& settings, const Repository& repository,
                                      const std::string& commit,
                                      const std::vector<std::string>& include);

}  // namespace coxswain::hub

#endif  // COXSWAIN_COMMON_HUB_DOWNLOAD_H_
