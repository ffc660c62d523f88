#include "controller/cli/machine/state_dir.h"

#include <signal.h>

#include <cerrno>
#include <fstream>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/host.h"
#include "controller/cli/machine/processes.h"

namespace coxswain::cli {

absl::StatusOr<std::optional<Endpoint>> ReadEndpoint(const std::string& path) {
  std::ifstream in(path);
  if (!in) return std::nullopt;
  const auto json = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("grpc") || !json["grpc"].is_string() ||
      !json.contains("pid") || !json["pid"].is_number_integer()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        ": no endpoint in it; expected {\"grpc\": \"host:port\", \"metrics\": ..., \"pid\": N}"));
  }
  Endpoint endpoint;
  endpoint.grpc = json["grpc"];
  endpoint.metrics = json.value("metrics", "");
  endpoint.pid = json["pid"];
  return endpoint;
}

std::string EndedController(const std::string& address) {
  const auto endpoint = ReadEndpoint(absl::StrCat(StateDir(), "/endpoint.json"));
  if (!endpoint.ok() || !endpoint->has_value() || (*endpoint)->grpc != address) return "";
  if (kill(static_cast<pid_t>((*endpoint)->pid), 0) == 0 || errno != ESRCH) return "";
  const std::string log = absl::StrCat(StateDir(), "/controller.log");
  return absl::StrCat("the controller of cox up (pid ", (*endpoint)->pid,
                      ") has ended; cox up starts it again. Newest lines of ", log, ":\n",
                      TailOfFile(log, 5));
}

std::string DefaultServer() {
  const auto endpoint = ReadEndpoint(absl::StrCat(StateDir(), "/endpoint.json"));
  if (endpoint.ok() && endpoint->has_value()) return (*endpoint)->grpc;
  return "127.0.0.1:7070";
}

}  // namespace coxswain::cli
