#include "common/hub/api/http_calls.h"

#include <curl/curl.h>
#include <sys/socket.h>

#include <algorithm>
#include <list>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/hub/api/forbidden_address.h"
#include "common/hub/api/url.h"
#include "common/identity.h"
#include "common/outside_text.h"
#include "common/status_macros.h"

namespace coxswain::hub {
namespace {

constexpr int kMostRedirects = 10;
constexpr long kBufferBytes = 512 << 10;  // the most that libcurl takes
constexpr size_t kMostHeadBytes = 256 << 10;
constexpr size_t kMostPassedOver = 1 << 20;
constexpr size_t kMostSaid = 4 << 10;

void InitCurl() {
  static const CURLcode once = curl_global_init(CURL_GLOBAL_DEFAULT);
  (void)once;
}

// Another try ends the same way.
bool Stays(CURLcode code) {
  return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
         code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL;
}

// Whether what was sent to `from` goes on to `to`. Source: RFC 9110, "307 Temporary Redirect".
bool TakesBody(int status, const std::string& from, const std::string& to) {
  const absl::StatusOr<std::string> before = OriginOf(from), after = OriginOf(to);
  return (status == 307 || status == 308) && before.ok() && after.ok() && *before == *after;
}

// The t of `"api";r=0;t=55`. Source: draft-ietf-httpapi-ratelimit-headers-09, "RateLimit".
int64_t RateLimitSeconds(const std::string& header) {
  const size_t at = header.find(";t=");
  if (header.find(";r=0") == std::string::npos || at == std::string::npos) return 0;
  const size_t end = header.find_first_not_of("0123456789", at + 3);
  int64_t seconds = 0;
  const bool read = absl::SimpleAtoi(header.substr(at + 3, end - (at + 3)), &seconds);
  return read ? seconds : 0;
}

}  // namespace

std::string HttpHead::Header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

HttpBody TextBody(const std::string& text, const std::string& type) {
  const auto read = [&text](int64_t offset, char* to, size_t most) -> absl::StatusOr<size_t> {
    return text.copy(to, most, static_cast<size_t>(offset));
  };
  return {.method = "POST",
          .type = type,
          .accept = type == kLfsType ? kLfsType : "*/*",
          .bytes = static_cast<int64_t>(text.size()),
          .read = read};
}

struct HttpCalls::Impl {
  struct Running {
    HttpCall call;
    CURL* easy = nullptr;
    HttpEnd end = {};
    int redirects = 0;
    size_t head_bytes = 0;
    size_t passed_over = 0;  // bytes of bodies that do not count
    bool head_told = false;
    int64_t sent = 0;  // of call.body
    curl_slist* headers = nullptr;
    ~Running() { curl_slist_free_all(headers); }
    bool own_machine = false;  // Settings::own_machine
    std::string forbidden;     // why the last address was not connected to
    char error[CURL_ERROR_SIZE] = "";
  };

  Impl(const Settings& used, Reach where)
      : settings(used), reach(where), multi(curl_multi_init()) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl();

  void Begin(Running* running, const std::string& url);
  void Finish(CURL* easy, CURLcode code);
  bool Redirect(Running* running);
  static absl::Status TellHead(Running* running);
  static curl_socket_t OnSocket(void* running, curlsocktype purpose, curl_sockaddr* address);
  static size_t OnHeader(char* text, size_t size, size_t count, void* running);
  static size_t OnBytes(char* bytes, size_t size, size_t count, void* running);
  static size_t OnSend(char* to, size_t size, size_t count, void* running);
  static int OnSendFrom(void* running, curl_off_t offset, int origin);
  void SetHeaders(Running* running, const std::string& url);
  void SetBody(Running* running);

  const Settings settings;
  const Reach reach;
  std::string origin;  // of the endpoint
  CURLM* multi;
  std::list<std::unique_ptr<Running>> running;
};

HttpCalls::Impl::~Impl() {
  for (const std::unique_ptr<Running>& one : running) {
    curl_multi_remove_handle(multi, one->easy);
    curl_easy_cleanup(one->easy);
  }
  curl_multi_cleanup(multi);
}

// Behind the resolution of names, for each address that is connected to: no name that leads
// elsewhere the second time passes.
curl_socket_t HttpCalls::Impl::OnSocket(void* of, curlsocktype /*purpose*/,
                                        curl_sockaddr* address) {
  auto* running = static_cast<Running*>(of);
  running->forbidden = ForbiddenAddress(address->addr, running->own_machine);
  if (!running->forbidden.empty()) return CURL_SOCKET_BAD;
  return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

// A status line begins an answer anew: behind "100 Continue" comes another.
size_t HttpCalls::Impl::OnHeader(char* text, size_t size, size_t count, void* of) {
  auto* running = static_cast<Running*>(of);
  const std::string_view line(text, size * count);
  if (line.compare(0, 5, "HTTP/") == 0) {
    running->end.head.headers.clear();
    return line.size();
  }
  running->head_bytes += line.size();
  if (running->head_bytes > kMostHeadBytes) return 0;
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return line.size();
  std::string value(line.substr(colon + 1));
  absl::StripAsciiWhitespace(&value);
  const std::string name = absl::AsciiStrToLower(std::string(line.substr(0, colon)));
  running->end.head.headers[name] = std::move(value);
  return line.size();
}

absl::Status HttpCalls::Impl::TellHead(Running* running) {
  running->head_told = true;
  return running->call.on_head ? running->call.on_head(running->end.head) : absl::OkStatus();
}

size_t HttpCalls::Impl::OnBytes(char* bytes, size_t size, size_t count, void* of) {
  auto* running = static_cast<Running*>(of);
  long status = 0;
  curl_easy_getinfo(running->easy, CURLINFO_RESPONSE_CODE, &status);
  running->end.head.status = static_cast<int>(status);
  if (status / 100 != 2) {
    running->passed_over += size * count;
    std::string& said = running->end.said;
    said.append(bytes, std::min(size * count, kMostSaid - std::min(said.size(), kMostSaid)));
    return running->passed_over <= kMostPassedOver ? size * count : 0;
  }
  absl::Status& refused = running->end.refused;
  if (!running->head_told) refused = TellHead(running);
  if (refused.ok() && running->call.on_bytes)
    refused = running->call.on_bytes({bytes, size * count});
  return refused.ok() ? size * count : 0;
}

size_t HttpCalls::Impl::OnSend(char* to, size_t size, size_t count, void* of) {
  auto* running = static_cast<Running*>(of);
  const HttpBody& body = *running->call.body;
  const auto left = static_cast<size_t>(body.bytes - running->sent);
  const size_t most = std::min(left, size * count);
  if (most == 0) return 0;
  const absl::StatusOr<size_t> read = body.read(running->sent, to, most);
  if (!read.ok()) {
    running->end.refused = read.status();
    return CURL_READFUNC_ABORT;
  }
  running->sent += static_cast<int64_t>(*read);
  return *read;
}

// For a connection that was kept and turns out to be gone: libcurl opens another.
int HttpCalls::Impl::OnSendFrom(void* of, curl_off_t offset, int origin) {
  if (origin != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK;
  static_cast<Running*>(of)->sent = offset;
  return CURL_SEEKFUNC_OK;
}

void HttpCalls::Impl::SetHeaders(Running* of, const std::string& url) {
  curl_slist_free_all(std::exchange(of->headers, nullptr));
  const auto add = [of](const std::string& line) {
    of->headers = curl_slist_append(of->headers, line.c_str());
  };
  add(absl::StrCat("Accept: ", of->call.body ? of->call.body->accept : "*/*"));
  const absl::StatusOr<std::string> to = OriginOf(url);
  if (reach != Reach::kForeign && !settings.token.empty() && to.ok() && *to == origin) {
    add(settings.token.AuthorizationHeader());
  }
  if (of->call.body) {
    add("Expect:");  // else libcurl waits a second for servers that answer no "100 Continue"
    if (!of->call.body->type.empty()) add("Content-Type: " + of->call.body->type);
  }
  curl_easy_setopt(of->easy, CURLOPT_HTTPHEADER, of->headers);
}

void HttpCalls::Impl::SetBody(Running* of) {
  const HttpBody& body = *of->call.body;
  CURL* easy = of->easy;
  of->sent = 0;
  curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
  curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, body.method.c_str());
  curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(body.bytes));
  curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, kBufferBytes);
  curl_easy_setopt(easy, CURLOPT_READFUNCTION, &OnSend);
  curl_easy_setopt(easy, CURLOPT_READDATA, of);
  curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, &OnSendFrom);
  curl_easy_setopt(easy, CURLOPT_SEEKDATA, of);
  // A server works on what it was sent before it answers.
  if (body.method == "POST") {
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, static_cast<long>(settings.limits.work.count()));
  }
}

void HttpCalls::Impl::Begin(Running* of, const std::string& url) {
  CURL* easy = of->easy;
  curl_easy_reset(easy);
  of->end.head = {.status = 0, .url = url};
  of->end.said.clear();
  SetHeaders(of, url);
  curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, reach == Reach::kForeign ? "https" : "http,https");
  if (reach == Reach::kForeign) {
    of->own_machine = settings.own_machine;
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, &OnSocket);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, of);
  }
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, kBufferBytes);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(settings.limits.connect.count()));
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, static_cast<long>(settings.limits.stall.count()));
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, of->error);
  curl_easy_setopt(easy, CURLOPT_PRIVATE, of);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &OnHeader);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, of);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &OnBytes);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, of);
  curl_easy_setopt(easy, CURLOPT_USERAGENT,
                   absl::StrCat("coxswain/", std::string(BuildVersion())).c_str());
  if (!settings.ca_file.empty()) {
    curl_easy_setopt(easy, CURLOPT_CAINFO, settings.ca_file.c_str());
  }
  if (of->call.end > 0) {
    const std::string range = absl::StrCat(of->call.begin, "-", of->call.end - 1);
    curl_easy_setopt(easy, CURLOPT_RANGE, range.c_str());
  }
  if (of->call.body) SetBody(of);
  curl_multi_add_handle(multi, easy);
}

// Whether the answer leads elsewhere and the call goes on there.
bool HttpCalls::Impl::Redirect(Running* of) {
  char* to = nullptr;
  curl_easy_getinfo(of->easy, CURLINFO_REDIRECT_URL, &to);
  if (to == nullptr) return false;
  const std::string url = to, from = of->end.head.url;
  of->end.stays = true;
  if (++of->redirects > kMostRedirects) {
    of->end.failure = absl::StrCat("it leads to another address ", kMostRedirects, " times");
  } else if (from.compare(0, 8, "https://") == 0 && url.compare(0, 8, "https://") != 0) {
    of->end.failure = absl::StrCat("it leads from https to ", PublicUrl(url));
  } else if (of->call.body && !TakesBody(of->end.head.status, from, url)) {
    of->end.failure = absl::StrCat("it leads to ", PublicUrl(url),
                                   ", to which nothing is sent: name the Hub as it is there");
  } else {
    of->end.stays = false;
    of->head_bytes = 0;
    Begin(of, url);
    return true;
  }
  return false;
}

void HttpCalls::Impl::Finish(CURL* easy, CURLcode code) {
  Running* of = nullptr;
  curl_easy_getinfo(easy, CURLINFO_PRIVATE, &of);
  long status = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  curl_multi_remove_handle(multi, easy);
  HttpEnd& end = of->end;
  end.head.status = static_cast<int>(status);
  if (of->passed_over > kMostPassedOver) code = CURLE_OK;
  if (code == CURLE_OK && status / 100 == 3 && Redirect(of)) return;
  if (code == CURLE_OK && status / 100 == 2 && !of->head_told) end.refused = TellHead(of);
  if (code == CURLE_COULDNT_CONNECT && !of->forbidden.empty()) {
    end.refused = absl::PermissionDeniedError(
        absl::StrCat(PublicUrl(end.head.url), " is refused: ", of->forbidden));
  }
  if (code != CURLE_OK && end.refused.ok()) {
    end.failure = OneLine(of->error[0] != '\0' ? of->error : curl_easy_strerror(code));
    end.stays = Stays(code);
  }
  curl_off_t seconds = 0;
  curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &seconds);
  end.retry_after = std::chrono::seconds(std::max<int64_t>(
      seconds, status == 429 ? RateLimitSeconds(end.head.Header("ratelimit")) : 0));
  const auto found = std::find_if(running.begin(), running.end(),
                                  [of](const auto& one) { return one.get() == of; });
  const std::unique_ptr<Running> ended = std::move(*found);
  running.erase(found);
  curl_easy_cleanup(easy);
  if (ended->call.on_end) ended->call.on_end(ended->end);
}

HttpCalls::HttpCalls(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpCalls::~HttpCalls() = default;

absl::StatusOr<std::unique_ptr<HttpCalls>> HttpCalls::Make(const Settings& settings, Reach reach) {
  InitCurl();
  auto impl = std::make_unique<Impl>(settings, reach);
  ASSIGN_OR_RETURN(impl->origin, OriginOf(settings.endpoint));
  return std::unique_ptr<HttpCalls>(new HttpCalls(std::move(impl)));
}

void HttpCalls::Start(HttpCall call) {
  auto running = std::make_unique<Impl::Running>();
  running->call = std::move(call);
  running->easy = curl_easy_init();
  impl_->running.push_back(std::move(running));
  impl_->Begin(impl_->running.back().get(), impl_->running.back()->call.url);
}

int HttpCalls::running() const { return static_cast<int>(impl_->running.size()); }

absl::Status HttpCalls::Wait(std::chrono::milliseconds most) {
  int left = 0;
  CURLMcode code = curl_multi_perform(impl_->multi, &left);
  bool ended = false;
  for (const CURLMsg* message; (message = curl_multi_info_read(impl_->multi, &left)) != nullptr;) {
    if (message->msg != CURLMSG_DONE) continue;
    ended = true;
    impl_->Finish(message->easy_handle, message->data.result);
  }
  if (code == CURLM_OK && !ended && running() > 0) {
    code = curl_multi_poll(impl_->multi, nullptr, 0, static_cast<int>(most.count()), nullptr);
  }
  if (code == CURLM_OK) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("libcurl: ", curl_multi_strerror(code)));
}

}  // namespace coxswain::hub
