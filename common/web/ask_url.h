// Questions to a server about files, without their contents.
#ifndef COXSWAIN_COMMON_WEB_ASK_URL_H_
#define COXSWAIN_COMMON_WEB_ASK_URL_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/hub/api/hub_settings.h"
#include "common/web/url_listing.h"

namespace coxswain::web {

// What a server says of a file.
struct UrlFacts {
  absl::Status there;  // NotFound, PermissionDenied: as FailureOf; the rest is empty
  std::string identity;
  int64_t bytes = 0;
};

// Of each of `urls`, with repetitions where they help, over several connections. A GET of one byte:
// addresses that are signed for GET refuse HEAD. Errors as FailureOf; FailedPrecondition: the
// server tells no size or no identity, without which nothing can be verified. Cancelled.
absl::StatusOr<std::vector<UrlFacts>> AskFacts(const hub::Settings& settings,
                                               const std::vector<std::string>& urls,
                                               const std::function<bool()>& cancelled);

// The content of `url`, which is `file`. Errors as FailureOf and CheckUnchanged;
// FailedPrecondition: it has more than `most` bytes. Cancelled.
absl::StatusOr<std::string> AskText(const hub::Settings& settings, const std::string& url,
                                    const UrlFile& file, int64_t most,
                                    const std::function<bool()>& cancelled);

}  // namespace coxswain::web

#endif  // COXSWAIN_COMMON_WEB_ASK_URL_H_
