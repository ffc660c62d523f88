#include "common/metrics.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <utility>

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/build_info.h"
#include "prometheus/gauge.h"

namespace coxswain {
namespace {

// Why `host`:`port` cannot be bound: the exposer's exception does not say.
std::string BindError(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int rc = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); rc != 0) {
    return gai_strerror(rc);
  }
  std::string error = "the port was busy a moment ago";
  const int fd = socket(found->ai_family, SOCK_STREAM, 0);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) != 0) error = std::strerror(errno);
  if (fd >= 0) close(fd);
  freeaddrinfo(found);
  return error;
}

}  // namespace

MetricsServer::MetricsServer(std::unique_ptr<prometheus::Exposer> exposer, std::string address,
                             std::shared_ptr<prometheus::Registry> registry)
    : registry_(std::move(registry)), exposer_(std::move(exposer)), address_(std::move(address)) {}

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    const std::string& address, std::shared_ptr<prometheus::Registry> registry) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == address.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("metrics address \"", address, "\": expected host:port, e.g. 127.0.0.1:0"));
  }
  std::string host = address.substr(0, colon);
  const std::string port = address.substr(colon + 1);
  if (host == "localhost") host = "127.0.0.1";
  std::unique_ptr<prometheus::Exposer> exposer;
  try {
    exposer = std::make_unique<prometheus::Exposer>(absl::StrCat(host, ":", port));
  } catch (const std::exception&) {
    std::string bare = host;
    if (bare.size() > 2 && bare.front() == '[') bare = bare.substr(1, bare.size() - 2);
    return absl::UnavailableError(absl::StrCat("metrics address ", address,
                                               " cannot be bound: ", BindError(bare, port),
                                               "; choose another port, or 0 for a free one"));
  }
  exposer->RegisterCollectable(registry);
  std::string bound = absl::StrCat(host, ":", exposer->GetListeningPorts().at(0));
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
