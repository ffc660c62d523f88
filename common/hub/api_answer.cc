#include "common/hub/api_answer.h"

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/hub/http_calls.h"
#include "common/hub/hub_failure.h"
#include "common/hub/retries.h"
#include "common/hub/url.h"
#include "common/status_macros.h"

namespace coxswain::hub {
namespace {

constexpr size_t kMostAnswerBytes = size_t{64} << 20;
constexpr std::chrono::milliseconds kPatience{100};  // how long a cancellation may wait

// The target of rel="next". Source: RFC 8288, "Link Serialisation in HTTP Headers"; the Hub's
// targets hold no comma.
std::string NextPage(const HttpHead& head) {
  const std::vector<std::string> links = absl::StrSplit(head.Header("link"), ',');
  for (const std::string& part : links) {
    const size_t begin = part.find('<'), end = part.find('>');
    if (begin == std::string::npos || end == std::string::npos || end < begin) continue;
    if (!absl::StrContains(part.substr(end), "rel=\"next\"")) continue;
    const absl::StatusOr<std::string> url =
        ResolveUrl(head.url, part.substr(begin + 1, end - begin - 1));
    if (url.ok()) return *url;
  }
  return "";
}

}  // namespace

absl::StatusOr<ApiAnswer> AskApi(const Settings& settings, const Repository& repository,
                                 const std::string& url, const std::function<bool()>& cancelled) {
  Retries retries(settings.limits);
  const absl::Status stopped =
      absl::CancelledError(absl::StrCat("asking for ", NameOf(repository), " was cancelled"));
  std::string body;
  std::optional<HttpEnd> end;
  ASSIGN_OR_RETURN(const std::unique_ptr<HttpCalls> calls, HttpCalls::Make(settings));
  while (true) {
    body.clear();
    end.reset();
    const auto keep = [&](std::string_view bytes) {
      body.append(bytes);
      return body.size() <= kMostAnswerBytes
                 ? absl::OkStatus()
                 : absl::ResourceExhaustedError(absl::StrCat(PublicUrl(url), " answers more than ",
                                                             kMostAnswerBytes, " bytes"));
    };
    calls->Start({.url = url, .on_bytes = keep, .on_end = [&](const HttpEnd& how) { end = how; }});
    while (!end) {
      if (cancelled && cancelled()) return stopped;
      RETURN_IF_ERROR(calls->Wait(kPatience));
    }
    if (end->ok()) return ApiAnswer{.body = body, .next = NextPage(end->head)};
    const std::optional<std::chrono::milliseconds> delay = retries.After(*end);
    if (!delay) return FailureOf(*end, settings, repository, "");
    if (!Pause(*delay, cancelled)) return stopped;
  }
}

}  // namespace coxswain::hub
