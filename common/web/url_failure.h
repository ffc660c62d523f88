// What an answer of a server that is none means to a user.
#ifndef COXSWAIN_COMMON_WEB_URL_FAILURE_H_
#define COXSWAIN_COMMON_WEB_URL_FAILURE_H_

#include <string>

#include "absl/status/status.h"
#include "common/hub/api/http_calls.h"
#include "common/web/url_listing.h"

namespace coxswain::web {

// The status of a call for `url` that ended not ok(). None, cut short, 408, 429, 5xx: Unavailable.
// 401, 403: PermissionDenied. 404, 410: NotFound. Another: Unknown. What a callback of the call
// refused comes back as it is. No message holds a query.
absl::Status FailureOf(const hub::HttpEnd& end, const std::string& url);

// FailedPrecondition where the answer `head` for `url` is of another content than `file`.
absl::Status CheckUnchanged(const hub::HttpHead& head, const std::string& url, const UrlFile& file);

// FailedPrecondition: `name` is not what it was when the job was submitted; `change` says how.
absl::Status Changed(const std::string& name, const std::string& change);

}  // namespace coxswain::web

#endif  // COXSWAIN_COMMON_WEB_URL_FAILURE_H_
