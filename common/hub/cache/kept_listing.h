// The files of a commit as a cache keeps them: a commit does not change, so they are asked for
// once.
#ifndef COXSWAIN_COMMON_HUB_CACHE_KEPT_LISTING_H_
#define COXSWAIN_COMMON_HUB_CACHE_KEPT_LISTING_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/hub/api/repository_listing.h"
#include "common/hub/cache/repository_cache.h"

namespace coxswain::hub {

// What ours or huggingface_hub's listing of `commit` says. Nothing: neither is there, or it cannot
// be read.
std::optional<std::vector<HubFile>> ReadKeptListing(const RepositoryCache& cache,
                                                    const std::string& commit);

// Paths of all files of a commit, sorted. `folder` is its snapshot, as SnapshotFolder names it. By
// the listing that is kept beside it; where none is, the files that are in it.
std::vector<std::string> PathsOfSnapshot(const std::string& folder);

// Writes ours, in the form of huggingface_hub's, beside it and not in its place: by its own,
// huggingface_hub takes a snapshot of some files for one that is damaged. Errors as ErrnoStatus.
absl::Status KeepListing(const RepositoryCache& cache, const std::string& commit,
                         const std::vector<HubFile>& files);

}  // namespace coxswain::hub

#endif  // COXSWAIN_COMMON_HUB_CACHE_KEPT_LISTING_H_
