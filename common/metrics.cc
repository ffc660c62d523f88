#include "common/metrics.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/build_info.h"
#include "common/socket_address.h"
#include "common/status_macros.h"
#include "prometheus/gauge.h"

namespace coxswain {
namespace {

void Knock(const SocketAddress& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(address.port);
  if (getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found) != 0) return;
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (fd >= 0) {
    connect(fd, found->ai_addr, found->ai_addrlen);
    close(fd);
  }
  freeaddrinfo(found);
}

}  // namespace

MetricsServer::MetricsServer(std::unique_ptr<prometheus::Exposer> exposer, SocketAddress bound,
                             std::shared_ptr<prometheus::Registry> registry)
    : registry_(std::move(registry)),
      exposer_(std::move(exposer)),
      bound_(std::move(bound)),
      address_(bound_.text()) {}

// Civetweb looks at its stop flag only when its poll of 2 s ends or a connection comes: so one
// comes.
MetricsServer::~MetricsServer() {
  std::atomic<bool> stopped{false};
  std::thread knocking([&] {
    while (!stopped) {
      Knock(bound_);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  exposer_ = nullptr;
  stopped = true;
  knocking.join();
}

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    const std::string& address, std::shared_ptr<prometheus::Registry> registry) {
  ASSIGN_OR_RETURN(SocketAddress bound, ParseSocketAddress(address));
  if (bound.host == "localhost") bound.host = "127.0.0.1";  // civetweb resolves no names
  std::unique_ptr<prometheus::Exposer> exposer;
  try {
    exposer = std::make_unique<prometheus::Exposer>(bound.text());
  } catch (const std::exception&) {
    return absl::UnavailableError(absl::StrCat("metrics address ", address,
                                               " cannot be bound: ", BindError(bound),
                                               "; choose another port, or 0 for a free one"));
  }
  exposer->RegisterCollectable(registry);
  bound.port = exposer->GetListeningPorts().at(0);
  return std::unique_ptr<MetricsServer>(
      new MetricsServer(std::move(exposer), std::move(bound), std::move(registry)));
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
