// What the Hub says of a repository: the commit of a revision, and the files of a commit.
#ifndef COXSWAIN_COMMON_HUB_API_REPOSITORY_LISTING_H_
#define COXSWAIN_COMMON_HUB_API_REPOSITORY_LISTING_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/hub/api/hub_settings.h"
#include "common/hub/api/repository.h"

namespace coxswain::hub {

struct HubFile {
  std::string path;  // in the repository, CheckPath holds
  int64_t bytes = 0;
  // Of its content: the SHA-256 where it lies in Git LFS (64 digits), else git's SHA-1 of the blob
  // (40). Names the content in a cache.
  std::string etag = {};

  bool operator==(const HubFile&) const = default;
};

// The commit that `repository.revision` is now, by one question. Errors as AskApi; DataLoss: the
// answer holds none.
absl::StatusOr<std::string> AskCommit(const Settings& settings, const Repository& repository,
                                      const std::function<bool()>& cancelled = {});

// The files of `commit` in the Hub's order, page by page. Errors as AskApi. DataLoss: an answer is
// no list of files, or names one by a path or hash that is none.
absl::StatusOr<std::vector<HubFile>> AskFiles(const Settings& settings,
                                              const Repository& repository,
                                              const std::string& commit,
                                              const std::function<bool()>& cancelled = {});

// DataLoss: `path` leads out of a folder into which it is written (absolute, ".."), or is no name
// of a file (empty components, ".", NUL, more than 4,095 bytes, a component of more than 255).
absl::Status CheckPath(const std::string& path);

// Whether `etag` is 40 or 64 hexadecimal digits in lower case.
bool IsEtag(const std::string& etag);

}  // namespace coxswain::hub

#endif  // COXSWAIN_COMMON_HUB_API_REPOSITORY_LISTING_H_
