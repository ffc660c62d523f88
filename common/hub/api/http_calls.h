// Requests over HTTP, several at a time, on the thread of their caller (libcurl).
#ifndef COXSWAIN_COMMON_HUB_API_HTTP_CALLS_H_
#define COXSWAIN_COMMON_HUB_API_HTTP_CALLS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/hub/api/hub_settings.h"

namespace coxswain::hub {

struct HttpHead {
  int status = 0;                                   // 0: no answer came
  std::string url;                                  // that answered, behind redirects
  std::map<std::string, std::string> headers = {};  // names in lower case

  std::string Header(const std::string& name) const;  // "" where there is none
};

// How a call ended.
struct HttpEnd {
  HttpHead head;
  // What went wrong with the connection or the length of the body, in curl's words. Empty: the
  // answer came whole.
  std::string failure;
  bool stays = false;  // another try fails the same way: a certificate, a forbidden redirect
  // Of Retry-After, or of the Hub's RateLimit; 0: neither.
  std::chrono::seconds retry_after{0};
  absl::Status refused = {};  // what a callback of the call returned
  std::string said = {};      // how the body of an error begins, at most 4 KiB

  bool ok() const { return failure.empty() && refused.ok() && head.status / 100 == 2; }
};

// What a request sends. Without one it is a GET.
struct HttpBody {
  std::string method;  // "POST" or "PUT"
  std::string type;    // Content-Type; empty: none is said
  std::string accept = "*/*";
  int64_t bytes = 0;
  // Writes some of what the body has from `offset` on, at most `most` bytes, to `to`, and returns
  // how many, > 0. It is asked again for what it gave where a connection breaks.
  std::function<absl::StatusOr<size_t>(int64_t offset, char* to, size_t most)> read = {};
};

// What Git LFS sends and takes. Source: Git LFS, specification, "Requests".
inline constexpr char kLfsType[] = "application/vnd.git-lfs+json";

// A POST of `text`, which outlives the call.
HttpBody TextBody(const std::string& text, const std::string& type);

// Callbacks run inside HttpCalls::Wait. What on_head, on_bytes or HttpBody::read return that is not
// OK ends the call.
struct HttpCall {
  std::string url;
  int64_t begin = 0;  // of the file, in bytes
  int64_t end = 0;    // behind the last byte; 0: no range is asked for
  std::optional<HttpBody> body = {};
  // Before the body of an answer 2xx; redirects and errors have none that counts.
  std::function<absl::Status(const HttpHead& head)> on_head = {};
  std::function<absl::Status(std::string_view bytes)> on_bytes = {};
  std::function<void(const HttpEnd& end)> on_end = {};  // once; it may start another call
};

// Where calls may go.
enum class Reach {
  kAnywhere,  // the operator chose the address
  kForeign,   // a user did: https alone, with no token, to no ForbiddenAddress
};

// The token goes to the origin of the endpoint and nowhere else, whatever redirects say (invariant
// hub-2). A redirect from https to http is not followed; what a request sends goes on by 307 and
// 308 alone, to the origin to which it was sent. Connections are kept for later calls.
class HttpCalls {
 public:
  static absl::StatusOr<std::unique_ptr<HttpCalls>> Make(const Settings& settings,
                                                         Reach reach = Reach::kAnywhere);
  ~HttpCalls();  // drops what is running, without on_end

  void Start(HttpCall call);
  int running() const;
  // Until bytes moved or `most` passed. Internal: libcurl itself fails.
  absl::Status Wait(std::chrono::milliseconds most);

 private:
  struct Impl;
  explicit HttpCalls(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain::hub

#endif  // COXSWAIN_COMMON_HUB_API_HTTP_CALLS_H_
