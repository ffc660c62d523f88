// A repository in the cache that Python's clients of the Hub use.
#ifndef COXSWAIN_COMMON_HUB_CACHE_REPOSITORY_CACHE_H_
#define COXSWAIN_COMMON_HUB_CACHE_REPOSITORY_CACHE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/hub/api/repository.h"
#include "common/hub/api/repository_listing.h"

namespace coxswain::hub {

// Paths in the cache `root`, and what is there:
//
//   models--org--name/blobs/ETAG                      contents, each once
//   models--org--name/snapshots/COMMIT/PATH           links to ../../blobs/ETAG
//   models--org--name/refs/REVISION                   the commit, as text
//   models--org--name/trees/COMMIT.json               huggingface_hub's list of files
//   models--org--name/coxswain/COMMIT.json            ours (kept_listing.h)
//   models--org--name/blobs/ETAG.coxswain.incomplete  our downloads (partial_blob.h)
//   .locks/models--org--name/ETAG.lock                who downloads
//
// Source: documentation of huggingface_hub, "Understand caching".
class RepositoryCache {
 public:
  RepositoryCache(const std::string& root, const Repository& repository);

  std::string Blob(const std::string& etag) const;
  std::string Partial(const std::string& etag) const;
  std::string Lock(const std::string& etag) const;
  std::string Snapshot(const std::string& commit) const;
  std::string File(const std::string& commit, const std::string& path) const;
  std::string Tree(const std::string& commit) const;     // huggingface_hub's
  std::string Listing(const std::string& commit) const;  // ours
  std::string Blobs() const;                             // the folder

  // The commit that the cache holds for a revision; a commit stands for itself. Nothing: none.
  std::optional<std::string> CommitOf(const std::string& revision) const;
  // Whether the snapshot or a blob has this content, by its size.
  bool HasFile(const std::string& commit, const HubFile& file) const;
  bool HasBlob(const HubFile& file) const;
  // Paths of all files of the snapshot, sorted; none where it is not there. A link to nothing is no
  // file.
  std::vector<std::string> Files(const std::string& commit) const;

  absl::Status MakeFolders() const;  // for blobs; errors as ErrnoStatus
  // Puts the blob of `file`, which is there, into the snapshot. Errors as ErrnoStatus.
  absl::Status Link(const std::string& commit, const HubFile& file) const;
  // Notes the commit of a revision, unless it is one or says so already.
  absl::Status NoteCommit(const std::string& revision, const std::string& commit) const;

 private:
  std::string Ref(const std::string& revision) const;

  const std::string folder_;
  const std::string locks_;
};

// Whether `path` is, through links, a regular file of `bytes`.
bool IsFileOf(const std::string& path, int64_t bytes);

// Writes a small file of a cache, whole and synced, with the folders above it; modes as the umask
// has them. Errors as ErrnoStatus.
absl::Status WriteCacheText(const std::string& path, const std::string& text);

}  // namespace coxswain::hub

#endif  // COXSWAIN_COMMON_HUB_CACHE_REPOSITORY_CACHE_H_
