// coxswain-supervisor: the workers of one host.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "common/build_info.h"
#include "common/logging.h"
#include "common/socket_address.h"
#include "worker/agent/host_info.h"
#include "worker/supervisor/find_binary.h"
#include "worker/supervisor/supervisor.h"

namespace coxswain {
namespace {

constexpr int kBadConfig = 64;

struct Flags {
  std::string controller, binary, state_dir = ".", advertise;
  std::string listen = "127.0.0.1:7080", metrics = "127.0.0.1:7180";
  int workers = 1, threads = 0, grace_seconds = 30;
  uint64_t memory_bytes = 0;
  std::string tls_cert, tls_key, tls_ca;
  bool insecure = false;
};

void AddFlags(CLI::App& app, Flags& flags) {
  app.set_version_flag("--version", std::string(BuildVersion()));
  app.add_option("--controller", flags.controller, "host:port of the controller")->required();
  app.add_option("--workers", flags.workers, "worker processes to run")->check(CLI::Range(1, 1024));
  app.add_option("--threads", flags.threads,
                 "CPU threads of each worker (default: all, divided equally)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--memory-bytes", flags.memory_bytes,
                 "memory a plan may use on each worker (default: 80 %, divided equally)")
      ->check(CLI::PositiveNumber);
  app.add_option("--listen", flags.listen,
                 "host:port of worker 0, the next ports for the others; port 0: ephemeral")
      ->capture_default_str();
  app.add_option("--advertise", flags.advertise, "host that others reach the workers by");
  app.add_option("--metrics", flags.metrics, "host:port of /metrics likewise; \"\": off")
      ->capture_default_str();
  app.add_option("--state-dir", flags.state_dir, "logs, endpoint files and stacks go here")
      ->capture_default_str();
  app.add_option("--worker-binary", flags.binary,
                 "program to run (default: coxswain-worker-cpu beside this one)");
  app.add_option("--grace-seconds", flags.grace_seconds, "from SIGTERM to SIGKILL")
      ->capture_default_str()
      ->check(CLI::Range(0, 86400));
  app.add_option("--tls-cert", flags.tls_cert, "handed to the workers");
  app.add_option("--tls-key", flags.tls_key, "handed to the workers");
  app.add_option("--tls-ca", flags.tls_ca, "handed to the workers");
  app.add_flag("--insecure", flags.insecure, "handed to the workers");
}

// The address of worker `slot`: an ephemeral port stays one.
std::string Shifted(const SocketAddress& first, int slot) {
  SocketAddress address = first;
  if (address.port != 0) address.port += slot;
  return address.text();
}

std::vector<std::string> Arguments(const Flags& flags, const SocketAddress& listen,
                                   const SocketAddress& metrics, int slot) {
  const std::string file = absl::StrCat(flags.state_dir, "/worker-", slot);
  std::vector<std::string> arguments = {
      "--controller",    flags.controller,
      "--slot",          std::to_string(slot),
      "--threads",       std::to_string(flags.threads),
      "--memory-bytes",  std::to_string(flags.memory_bytes),
      "--listen",        Shifted(listen, slot),
      "--metrics",       flags.metrics.empty() ? "" : Shifted(metrics, slot),
      "--log-file",      file + ".log",
      "--endpoint-file", file + ".json"};
  const auto add = [&](const std::string& name, const std::string& value) {
    if (value.empty()) return;
    arguments.push_back(name);
    arguments.push_back(value);
  };
  add("--advertise", flags.advertise);
  add("--tls-cert", flags.tls_cert);
  add("--tls-key", flags.tls_key);
  add("--tls-ca", flags.tls_ca);
  if (flags.insecure) arguments.push_back("--insecure");
  return arguments;
}

int Refuse(const absl::Status& status) {
  log::Error("the supervisor cannot start", {{"error", status.ToString()}});
  return kBadConfig;
}

int Run(int argc, char** argv) {
  Flags flags;
  CLI::App app{"Coxswain supervisor: starts, watches and restarts the workers of this host"};
  AddFlags(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : kBadConfig;
  }
  log::Init("supervisor", log::Level::kInfo);
  const auto listen = ParseSocketAddress(flags.listen);
  if (!listen.ok()) return Refuse(listen.status());
  const auto metrics = ParseSocketAddress(flags.metrics.empty() ? "off:0" : flags.metrics);
  if (!metrics.ok()) return Refuse(metrics.status());
  if (flags.binary.empty()) {
    auto found = supervisor::FindBinary("coxswain-worker-cpu");
    if (!found.ok()) return Refuse(found.status());
    flags.binary = *found;
  }
  std::error_code error;
  std::filesystem::create_directories(flags.state_dir, error);
  if (error) {
    return Refuse(absl::FailedPreconditionError(
        absl::StrCat("--state-dir ", flags.state_dir, " cannot be made: ", error.message())));
  }
  if (flags.threads == 0) flags.threads = std::max(1, agent::UsableCpus() / flags.workers);
  if (flags.memory_bytes == 0) flags.memory_bytes = agent::PlannableBytes(flags.workers);

  supervisor::SupervisorOptions options;
  options.binary = flags.binary;
  options.workers = flags.workers;
  options.state_dir = flags.state_dir;
  options.grace = std::chrono::seconds(flags.grace_seconds);
  options.arguments = [&](int slot) { return Arguments(flags, *listen, *metrics, slot); };
  return supervisor::Supervisor(std::move(options)).Run();
}

}  // namespace
}  // namespace coxswain

int main(int argc, char** argv) { return coxswain::Run(argc, argv); }
