#include "common/hub/api/api_answer.h"

#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/hub/api/http_calls.h"
#include "common/hub/api/hub_failure.h"
#include "common/hub/api/retries.h"
#include "common/hub/api/url.h"
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

// `post`: null for a GET.
absl::StatusOr<ApiReply> Converse(const Settings& settings, const std::string& url,
                                  const ApiPost* post, const std::function<bool()>& cancelled) {
  Retries retries(settings.limits);
  const absl::Status stopped =
      absl::CancelledError(absl::StrCat("asking ", PublicUrl(url), " was cancelled"));
  ASSIGN_OR_RETURN(const std::unique_ptr<HttpCalls> calls, HttpCalls::Make(settings));
  while (true) {
    std::string body;
    std::optional<HttpEnd> end;
    HttpCall call{.url = url};
    call.on_bytes = [&](std::string_view bytes) {
      body.append(bytes);
      return body.size() <= kMostAnswerBytes
                 ? absl::OkStatus()
                 : absl::ResourceExhaustedError(absl::StrCat(PublicUrl(url), " answers more than ",
                                                             kMostAnswerBytes, " bytes"));
    };
    if (post != nullptr) call.body = TextBody(post->text, post->type);
    call.on_end = [&](const HttpEnd& how) { end = how; };
    calls->Start(std::move(call));
    while (!end) {
      if (cancelled && cancelled()) return stopped;
      RETURN_IF_ERROR(calls->Wait(kPatience));
    }
    RETURN_IF_ERROR(end->refused);
    const std::optional<std::chrono::milliseconds> delay =
        end->ok() ? std::nullopt : retries.After(*end);
    if (!delay) return ApiReply{.end = *end, .body = std::move(body)};
    if (!Pause(*delay, cancelled)) return stopped;
  }
}

}  // namespace

absl::StatusOr<ApiReply> PostApi(const Settings& settings, const ApiPost& post,
                                 const std::function<bool()>& cancelled) {
  return Converse(settings, post.url, &post, cancelled);
}

absl::StatusOr<ApiReply> GetApi(const Settings& settings, const std::string& url,
                                const std::function<bool()>& cancelled) {
  return Converse(settings, url, nullptr, cancelled);
}

absl::StatusOr<ApiAnswer> AskApi(const Settings& settings, const Repository& repository,
                                 const std::string& url, const std::function<bool()>& cancelled) {
  ASSIGN_OR_RETURN(const ApiReply reply, GetApi(settings, url, cancelled));
  if (!reply.end.ok()) return FailureOf(reply.end, settings, repository, "");
  return ApiAnswer{.body = reply.body, .next = NextPage(reply.end.head)};
}

}  // namespace coxswain::hub
