#include "common/net/http_server.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include <httplib.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/net/http_head.h"
#include "common/net/socket_address.h"
#include "common/status_macros.h"

namespace coxswain {
namespace {

constexpr int kClientMs = 5000;  // to take what is written

// What the library reads of a request is the head that was read already: it takes no more of one.
class HeadStream : public httplib::Stream {
 public:
  HeadStream(int socket, std::string head) : socket_(socket), head_(std::move(head)) {}

  bool is_readable() const override { return at_ < head_.size(); }
  bool is_writable() const override { return true; }
  ssize_t read(char* to, size_t size) override {
    const size_t taken = head_.copy(to, size, at_);
    at_ += taken;
    return static_cast<ssize_t>(taken);
  }
  ssize_t write(const char* from, size_t size) override {
    if (!WaitForSocket(socket_, /*for_writing=*/true, kClientMs)) return -1;
    return ::send(socket_, from, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  void get_remote_ip_and_port(std::string& ip, int& /*port*/) const override {
    sockaddr_storage peer{};
    socklen_t size = sizeof(peer);
    auto* name = reinterpret_cast<sockaddr*>(&peer);
    char text[NI_MAXHOST];
    const bool told = getpeername(socket_, name, &size) == 0 &&
                      getnameinfo(name, size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) == 0;
    if (told) ip = text;
  }
  void get_local_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
  socket_t socket() const override { return socket_; }

 private:
  const int socket_;
  const std::string head_;
  size_t at_ = 0;
};

// One request a connection, within the bounds of ReadHttpHead: the library has none of its own.
class BoundedServer : public httplib::Server {
 private:
  bool process_and_close_socket(socket_t socket) override {
    const absl::StatusOr<std::string> head = ReadHttpHead(socket);
    const bool done = head.ok() ? Answer(socket, *head) : Refuse(socket, head.status());
    ::shutdown(socket, SHUT_RDWR);
    ::close(socket);
    return done;
  }
  bool Answer(int socket, const std::string& head) {
    HeadStream stream(socket, head);
    bool closed = false;
    return process_request(stream, /*close_connection=*/true, closed, nullptr);
  }
  static bool Refuse(int socket, const absl::Status& why) {
    if (!absl::IsResourceExhausted(why)) return false;
    const std::string body(why.message());
    const std::string reply =
        absl::StrCat("HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\n",
                     "Content-Type: text/plain; charset=utf-8\r\nContent-Length: ", body.size(),
                     "\r\n\r\n", body);
    return ::send(socket, reply.data(), reply.size(), MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
  }
};

HttpCaller CallerOf(const httplib::Request& request) {
  return {.on_loopback = IsLoopback(request.remote_addr),
          .host = request.get_header_value("Host"),
          .authorization = request.get_header_value("Authorization")};
}

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
  BoundedServer server;
  std::string address;
  std::thread thread;

  void Configure(int threads, Handler handler, Guard guard);
  absl::Status Bind(SocketAddress address);
};

void HttpServer::Impl::Configure(int threads, Handler handler, Guard guard) {
  server.new_task_queue = [threads] {
    return new httplib::ThreadPool(static_cast<size_t>(threads));
  };
  // Not the library's SO_REUSEPORT: a second server on the port must be told that it is in use.
  server.set_socket_options([](socket_t socket) {
    const int on = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  });
  server.set_default_headers({{"X-Content-Type-Options", "nosniff"}});
  server.set_pre_routing_handler([handler = std::move(handler), guard = std::move(guard)](
                                     const httplib::Request& request, httplib::Response& response) {
    if (request.method != "GET" && request.method != "HEAD") {
      response.status = 405;
      response.set_header("Allow", "GET, HEAD");
      response.set_content("GET and HEAD only\n", "text/plain; charset=utf-8");
      return httplib::Server::HandlerResponse::Handled;
    }
    const std::optional<HttpResponse> refusal =
        guard ? guard(CallerOf(request)) : std::optional<HttpResponse>();
    const HttpResponse answer = refusal ? *refusal : handler(request.path);
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
                                                              int threads, Handler handler,
                                                              Guard guard) {
  ASSIGN_OR_RETURN(const SocketAddress wanted, ParseSocketAddress(address));
  std::unique_ptr<HttpServer> http(new HttpServer());
  Impl& impl = *http->impl_;
  impl.Configure(threads, std::move(handler), std::move(guard));
  RETURN_IF_ERROR(impl.Bind(wanted));
  impl.thread = std::thread([&impl] { impl.server.listen_after_bind(); });
  while (!impl.server.is_running()) std::this_thread::yield();  // stop() has an effect only then
  return http;
}

}  // namespace coxswain
