// Files of any https server: asked for, downloaded, found again.
#ifndef COXSWAIN_COMMON_WEB_FETCH_URL_H_
#define COXSWAIN_COMMON_WEB_FETCH_URL_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/hub/api/hub_settings.h"
#include "common/hub/download_options.h"
#include "common/web/url_listing.h"
#include "common/web/url_source.h"

namespace coxswain::web {

struct ResolvedUrl {
  std::string revision;  // 40 digits
  // OK: the server said so. Else why it was not asked or did not answer, and the revision is the
  // newest that the cache has whole.
  absl::Status from_cache = {};
};

// What is behind the URL now, by one question for each file. Offline, or where the server cannot be
// reached, what the cache has. Errors as AskFacts and AskModel; NotFound: offline and not in the
// cache. PermissionDenied: the URL leads to a ForbiddenAddress.
absl::StatusOr<ResolvedUrl> ResolveUrl(const hub::Settings& settings, const UrlSource& source,
                                       const std::function<bool()>& cancelled = {});

struct UrlHooks {
  std::function<bool()> cancelled = {};  // asked ten times a second
  // At most ten times a second, and at the end. On the caller's thread.
  std::function<void(const hub::Progress& progress)> progress = {};
};

struct UrlCopy {
  std::string path;  // absolute: the file, or the folder of a model
  UrlListing files;
  int64_t fetched_bytes = 0;  // by this call, over the network
};

// The files of `revision`, in the cache: downloads what is missing, and takes no byte of another
// content. Processes that want the same file download it once. A call that failed or was killed is
// continued by the next.
//
// Errors as ResolveUrl, and:
// - FailedPrecondition: the files changed since they were resolved; the file is named;
// - ResourceExhausted: the disk is full; folder, bytes needed and bytes free are named;
// - Cancelled; and errors of files as ErrnoStatus.
absl::StatusOr<UrlCopy> FetchUrl(const hub::Settings& settings, const UrlSource& source,
                                 const std::string& revision, const UrlHooks& hooks);

// Where the cache has `revision`, or will: the file, or the folder of a model. Absolute.
std::string PathOfUrl(const hub::Settings& settings, const UrlSource& source,
                      const std::string& revision);

// The same without a network. NotFound: the cache does not have all of it.
absl::StatusOr<UrlCopy> FindUrl(const hub::Settings& settings, const UrlSource& source,
                                const std::string& revision);

}  // namespace coxswain::web

#endif  // COXSWAIN_COMMON_WEB_FETCH_URL_H_
