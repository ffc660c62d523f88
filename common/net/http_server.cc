#include "common/net/http_server.h"

#include <netdb.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include <httplib.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/net/socket_address.h"
#include "common/status_macros.h"

namespace coxswain {
namespace {

constexpr int kIdleSeconds =
    1;  // a browser connects ahead of need: such a thread is soon free again
constexpr int kClientSeconds = 5;

absl::Status CannotBind(const std::string& address, const std::string& reason) {
  return absl::UnavailableError(absl::StrCat("metrics address ", address, " cannot be bound: ",
                                             reason, "; choose another port, or 0 for a free one"));
}

absl::Status CheckHost(const SocketAddress& address) {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int rc = getaddrinfo(address.host.c_str(), nullptr, &hints, &found);
  if (rc != 0) return CannotBind(address.text(), gai_strerror(rc));
  freeaddrinfo(found);
  return absl::OkStatus();
}

}  // namespace

struct HttpServer::Impl {
  httplib::Server server;
  std::string address;
  std::thread thread;

  void Configure(int threads, Handler handler);
  absl::Status Bind(SocketAddress address);
};

void HttpServer::Impl::Configure(int threads, Handler handler) {
  server.new_task_queue = [threads] {
    return new httplib::ThreadPool(static_cast<size_t>(threads));
  };
  // Not the library's SO_REUSEPORT: a second server on the port must be told that it is in use.
  server.set_socket_options([](socket_t socket) {
    const int on = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  });
  server.set_keep_alive_max_count(1);
  server.set_keep_alive_timeout(kIdleSeconds);
  server.set_read_timeout(kClientSeconds);
  server.set_write_timeout(kClientSeconds);
  server.set_default_headers({{"X-Content-Type-Options", "nosniff"}});
  server.set_pre_routing_handler(
      [handler = std::move(handler)](const httplib::Request& request, httplib::Response& response) {
        if (request.method != "GET" && request.method != "HEAD") {
          response.status = 405;
          response.set_header("Allow", "GET, HEAD");
          response.set_content("GET and HEAD only\n", "text/plain; charset=utf-8");
          return httplib::Server::HandlerResponse::Handled;
        }
        HttpResponse answer = handler(request.path);
        response.status = answer.status;
        for (const auto& [name, value] : answer.headers) response.set_header(name, value);
        response.set_content(answer.body, answer.content_type);
        return httplib::Server::HandlerResponse::Handled;
      });
}

absl::Status HttpServer::Impl::Bind(SocketAddress wanted) {
  RETURN_IF_ERROR(CheckHost(wanted));
  errno = 0;
  if (wanted.port == 0) {
    const int port = server.bind_to_any_port(wanted.host);
    if (port <= 0) return CannotBind(wanted.text(), std::strerror(errno));
    wanted.port = static_cast<decltype(wanted.port)>(port);
  } else if (!server.bind_to_port(wanted.host, wanted.port)) {
    return CannotBind(wanted.text(), std::strerror(errno));
  }
  address = wanted.text();
  return absl::OkStatus();
}

HttpServer::HttpServer() : impl_(std::make_unique<Impl>()) {}

HttpServer::~HttpServer() {
  if (!impl_->thread.joinable()) return;
  impl_->server.stop();
  impl_->thread.join();
}

const std::string& HttpServer::address() const { return impl_->address; }

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& address,
                                                              int threads, Handler handler) {
  ASSIGN_OR_RETURN(const SocketAddress wanted, ParseSocketAddress(address));
  std::unique_ptr<HttpServer> http(new HttpServer());
  Impl& impl = *http->impl_;
  impl.Configure(threads, std::move(handler));
  RETURN_IF_ERROR(impl.Bind(wanted));
  impl.thread = std::thread([&impl] { impl.server.listen_after_bind(); });
  while (!impl.server.is_running()) std::this_thread::yield();  // stop() has an effect only then
  return http;
}

}  // namespace coxswain
