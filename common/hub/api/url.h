// URLs of HTTP, as libcurl reads them.
#ifndef COXSWAIN_COMMON_HUB_API_URL_H_
#define COXSWAIN_COMMON_HUB_API_URL_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace coxswain::hub {

// "https://host:443": scheme, host in lower case and port, which two URLs of one server share.
// InvalidArgument, without a query or password of it: it is no URL of http or https.
absl::StatusOr<std::string> OriginOf(const std::string& url);

// `reference`, the value of a Location or Link header of the answer to `base`, as a whole URL.
absl::StatusOr<std::string> ResolveUrl(const std::string& base, const std::string& reference);

// `url` for a message: without user, password, query and fragment, any of which may be a secret.
std::string PublicUrl(const std::string& url);

// Whether `url` holds more than scheme, host, port and path.
bool HasSecrets(const std::string& url);

// Everything but letters, digits and -._~ becomes %XX; EscapePath leaves slashes too.
std::string EscapeSegment(std::string_view text);
std::string EscapePath(std::string_view text);

}  // namespace coxswain::hub

#endif  // COXSWAIN_COMMON_HUB_API_URL_H_
