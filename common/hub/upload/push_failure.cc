#include "common/hub/upload/push_failure.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/hub/api/url.h"
#include "common/outside_text.h"

namespace coxswain::hub {
namespace {

// The text of {"error": "..."} or {"message": "..."}.
std::string ErrorIn(const std::string& body) {
  const auto json = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return "";
  for (const char* key : {"error", "message"}) {
    const auto found = json.find(key);
    if (found != json.end() && found->is_string()) return found->get<std::string>();
  }
  return "";
}

std::string Unreached(const HttpEnd& end, const Settings& settings, const std::string& words) {
  if (!end.failure.empty()) return settings.token.RemovedFrom(end.failure);
  std::string what = absl::StrCat("it answered ", end.head.status, words);
  if (end.retry_after.count() > 0) {
    absl::StrAppend(&what, "; it asks to wait ", end.retry_after.count(), " s");
  }
  return what;
}

}  // namespace

std::string WordsOf(const HttpEnd& end, const Settings& settings) {
  const std::string header = end.head.Header("x-error-message");
  const std::string said = header.empty() ? ErrorIn(end.said) : header;
  return settings.token.RemovedFrom(OneLine(said, kMostNameBytes));
}

absl::Status PushFailureOf(const HttpEnd& end, const Settings& settings,
                           const Repository& repository, const std::string& what) {
  if (!end.refused.ok()) return end.refused;
  const int status = end.head.status;
  const std::string name = NameOf(repository);
  const std::string url = PublicUrl(end.head.url);
  const std::string said = WordsOf(end, settings);
  const std::string words = said.empty() ? "" : absl::StrCat(" (", said, ")");
  if (!end.failure.empty() || status == 408 || status == 429 || status / 100 == 5) {
    return absl::UnavailableError(absl::StrCat("cannot send ", what, " of ", name, " to ", url,
                                               ": ", Unreached(end, settings, words)));
  }
  switch (status) {
    case 401:
      return absl::UnauthenticatedError(
          absl::StrCat(settings.endpoint, " does not accept the token for ", name,
                       ": check the name and the token (HF_TOKEN, or `hf auth login`)", words));
    case 403:
      return absl::PermissionDeniedError(
          absl::StrCat("the token may not write to ", name, " at ", settings.endpoint,
                       ": take one with write permission, or another repository", words));
    case 404:
      return absl::NotFoundError(absl::StrCat(name, " is not at ", settings.endpoint,
                                              " any more, or has no branch ", repository.revision,
                                              words));
    case 409:
    case 412:
      return absl::AbortedError(absl::StrCat("others write to ", name, " at ", settings.endpoint,
                                             " at the same time: push again", words));
    case 402:
    case 413:
      return absl::FailedPreconditionError(absl::StrCat(
          what, " of ", name, " is too much for its account at ", settings.endpoint, words));
    default:
      return absl::FailedPreconditionError(
          absl::StrCat(url, " answered ", status, " to ", what, " of ", name, words));
  }
}

}  // namespace coxswain::hub
