// A small HTTP server for scrapes and pages: GET and HEAD, one handler, one request per connection.
#ifndef COXSWAIN_COMMON_NET_HTTP_SERVER_H_
#define COXSWAIN_COMMON_NET_HTTP_SERVER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace coxswain {

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "text/plain; charset=utf-8";
  std::vector<std::pair<std::string, std::string>> headers = {};  // more than these two
};

// Who asks for a page.
struct HttpCaller {
  bool on_loopback = false;        // the connection comes from this machine
  std::string host = {};           // the header Host, which names what the client believes to ask
  std::string authorization = {};  // the header; empty: none
};

// Every answer says nosniff; another method than GET or HEAD is 405, a request whose headers go
// over the bounds of common/net/http_head.h is 431. No more of a request is read than its headers.
class HttpServer {
 public:
  // `path` is decoded and without the query, e.g. "/jobs/a". Called from several threads.
  using Handler = std::function<HttpResponse(const std::string& path)>;

  // The refusal of a request that is not to reach the handler. Called from several threads.
  using Guard = std::function<std::optional<HttpResponse>(const HttpCaller& caller)>;

  // `address`: "host:port"; port 0 takes a free one. `threads` requests are answered at a time.
  // Without a guard every request is answered.
  // InvalidArgument for another form, Unavailable naming address and reason when it cannot be bound
  // (e.g. the port is in use).
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address, int threads,
                                                           Handler handler, Guard guard = {});
  ~HttpServer();  // waits for the requests in progress

  const std::string& address() const;  // with the port that was bound

 private:
  HttpServer();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_NET_HTTP_SERVER_H_
