#include "common/metrics.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/build_info.h"
#include "common/socket_address.h"
#include "common/status_macros.h"
#include "prometheus/gauge.h"
#include "prometheus/text_serializer.h"

namespace coxswain {
namespace {

constexpr int kClientTimeoutMs = 5000;  // a stuck client keeps others waiting this long at most
constexpr size_t kMaxRequestBytes = 8192;

absl::Status CannotBind(const std::string& address, const std::string& reason) {
  return absl::UnavailableError(absl::StrCat("metrics address ", address, " cannot be bound: ",
                                             reason, "; choose another port, or 0 for a free one"));
}

// A listening socket; sets address->port.
absl::StatusOr<int> Listen(SocketAddress* address) {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(address->port);
  if (const int rc = getaddrinfo(address->host.c_str(), port.c_str(), &hints, &found); rc != 0) {
    return CannotBind(address->text(), gai_strerror(rc));
  }
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const bool bound =
      fd >= 0 && bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, 64) == 0;
  const int error = errno;
  freeaddrinfo(found);
  if (!bound) {
    if (fd >= 0) close(fd);
    return CannotBind(address->text(), std::strerror(error));
  }
  sockaddr_storage name{};
  socklen_t size = sizeof(name);
  getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size);
  address->port =
      ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(name).sin6_port
                                       : reinterpret_cast<const sockaddr_in&>(name).sin_port);
  return fd;
}

// The request's head, or what came of it in time.
std::string ReadRequest(int client) {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(kClientTimeoutMs);
  std::string request;
  while (request.find("\r\n\r\n") == std::string::npos && request.size() < kMaxRequestBytes) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd readable{client, POLLIN, 0};
    if (left.count() <= 0 || poll(&readable, 1, static_cast<int>(left.count())) <= 0) break;
    char buffer[1024];
    const ssize_t n = recv(client, buffer, sizeof(buffer), 0);
    if (n <= 0) break;
    request.append(buffer, n);
  }
  return request;
}

void Reply(int client, std::string_view status, std::string_view body) {
  std::string text = absl::StrCat("HTTP/1.1 ", std::string(status),
                                  "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8"
                                  "\r\nContent-Length: ",
                                  body.size(), "\r\nConnection: close\r\n\r\n");
  text.append(body);
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t n = send(client, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return;
    sent += n;
  }
}

}  // namespace

MetricsServer::MetricsServer(int listener, std::string address,
                             std::shared_ptr<prometheus::Registry> registry)
    : listener_(listener),
      stop_(eventfd(0, EFD_CLOEXEC)),
      address_(std::move(address)),
      registry_(std::move(registry)),
      thread_([this] { Loop(); }) {}

MetricsServer::~MetricsServer() {
  eventfd_write(stop_, 1);
  thread_.join();
  close(listener_);
  close(stop_);
}

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    const std::string& address, std::shared_ptr<prometheus::Registry> registry) {
  ASSIGN_OR_RETURN(SocketAddress bound, ParseSocketAddress(address));
  ASSIGN_OR_RETURN(const int listener, Listen(&bound));
  return std::unique_ptr<MetricsServer>(
      new MetricsServer(listener, bound.text(), std::move(registry)));
}

void MetricsServer::Loop() {
  pollfd watched[2] = {{listener_, POLLIN, 0}, {stop_, POLLIN, 0}};
  while (true) {
    poll(watched, 2, -1);
    if (watched[1].revents != 0) return;
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) continue;
    const timeval timeout{kClientTimeoutMs / 1000, 0};
    setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    Answer(client);
    close(client);
  }
}

void MetricsServer::Answer(int client) const {
  const std::string request = ReadRequest(client);
  const std::string line = request.substr(0, request.find("\r\n"));
  if (line.rfind("GET ", 0) != 0) return Reply(client, "405 Method Not Allowed", "GET only\n");
  const std::string path = line.substr(4, line.find_first_of(" ?", 4) - 4);
  if (path != "/metrics") return Reply(client, "404 Not Found", "only /metrics is served\n");
  Reply(client, "200 OK", prometheus::TextSerializer().Serialize(registry_->Collect()));
}

void AddProcessMetrics(std::string_view component, prometheus::Registry* registry) {
  prometheus::BuildGauge()
      .Name("coxswain_build_info")
      .Help("Identity of the build; the value is 1")
      .Register(*registry)
      .Add({{"component", std::string(component)},
            {"version", std::string(BuildVersion())},
            {"commit", std::string(BuildCommit())}})
      .Set(1);
  prometheus::BuildGauge()
      .Name("process_start_time_seconds")
      .Help("Start time of the process, seconds since 1970")
      .Register(*registry)
      .Add({})
      .Set(std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
               .count());
}

}  // namespace coxswain
