// The files behind a URL, as they were at one time.
#ifndef COXSWAIN_COMMON_WEB_URL_LISTING_H_
#define COXSWAIN_COMMON_WEB_URL_LISTING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/hub/api/http_calls.h"
#include "common/web/url_source.h"

namespace coxswain::web {

struct UrlFile {
  std::string name;      // IsFileName
  std::string identity;  // IdentityOf
  int64_t bytes = 0;
  bool operator==(const UrlFile&) const = default;
};

// By name. Of UrlKind::kFile: one.
using UrlListing = std::vector<UrlFile>;

// What tells one content behind a URL from the next: "etag "..."" where the answer has a strong
// one, else "modified DATE", else a weak ETag. Empty: the answer has none of them.
// Source: RFC 9110, sections 8.8.2 and 8.8.3.
std::string IdentityOf(const hub::HttpHead& head);

// 40 digits: names, identities and sizes of the files, whatever the URL.
std::string RevisionOf(const UrlListing& listing);

// The URL of a file of `source`.
std::string UrlOf(const UrlSource& source, const UrlFile& file);

std::string ToJson(const UrlSource& source, const UrlListing& listing);
// DataLoss: it is not what ToJson wrote.
absl::StatusOr<UrlListing> ListingOfJson(const std::string& text);

}  // namespace coxswain::web

#endif  // COXSWAIN_COMMON_WEB_URL_LISTING_H_
