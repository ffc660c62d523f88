#include "common/web/url_failure.h"

#include "absl/strings/str_cat.h"
#include "common/hub/api/url.h"
#include "common/outside_text.h"

namespace coxswain::web {

absl::Status FailureOf(const hub::HttpEnd& end, const std::string& url) {
  if (!end.refused.ok()) return end.refused;
  const int status = end.head.status;
  const std::string name = hub::PublicUrl(url), from = hub::PublicUrl(end.head.url);
  if (!end.failure.empty() || status == 408 || status == 429 || status / 100 == 5) {
    std::string what = end.failure.empty() ? absl::StrCat("it answered ", status)
                                           : OneLine(end.failure, 2 * kMostNameBytes);
    if (end.retry_after.count() > 0) {
      absl::StrAppend(&what, "; it asks to wait ", end.retry_after.count(), " s");
    }
    return absl::UnavailableError(
        absl::StrCat("cannot get ", name, from == name ? "" : " from " + from, ": ", what));
  }
  if (status == 401 || status == 403) {
    return absl::PermissionDeniedError(absl::StrCat(
        from, " answered ", status, ": give an address that needs no login, for example a ",
        "presigned one that is still valid, or download the file and write its path"));
  }
  if (status == 404 || status == 410) {
    return absl::NotFoundError(absl::StrCat(name, " does not exist: the server answered ", status));
  }
  return absl::UnknownError(absl::StrCat(from, " answered ", status, " for ", name));
}

absl::Status CheckUnchanged(const hub::HttpHead& head, const std::string& url,
                            const UrlFile& file) {
  const std::string now = IdentityOf(head);
  if (now == file.identity) return absl::OkStatus();
  return Changed(hub::PublicUrl(url), absl::StrCat("it was ", file.identity, " and is ",
                                                   now.empty() ? "without an identity" : now));
}

absl::Status Changed(const std::string& name, const std::string& change) {
  return absl::FailedPreconditionError(absl::StrCat(
      name, " changed since the job was submitted: ", change, ": submit the job again"));
}

}  // namespace coxswain::web
