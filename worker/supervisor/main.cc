// coxswain-supervisor: the workers of one host.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "common/access/principal.h"
#include "common/faults/fault_flag.h"
#include "common/faults/fault_point.h"
#include "common/files/private_folder.h"
#include "common/host.h"
#include "common/identity.h"
#include "common/logging.h"
#include "common/net/socket_address.h"
#include "common/status_macros.h"
#include "worker/agent/host_info.h"
#include "worker/supervisor/health.h"
#include "worker/supervisor/processes.h"
#include "worker/supervisor/relay.h"
#include "worker/supervisor/supervisor.h"

namespace coxswain {
namespace {

constexpr int kBadConfig = 64;
constexpr int kRelayPort = -2;  // from worker 0's: the port between is that of --health by custom
// A loop that has not turned for so long hangs; taking stacks holds it up for each process.
constexpr std::chrono::seconds kLoopStall{30};
constexpr std::chrono::seconds kStallOfStacks{10};

struct Flags {
  std::string controller, host_id, binary, cuda_binary, state_dir = ".", advertise, relay;
  std::string listen = "127.0.0.1:7080", metrics = "127.0.0.1:7180", health;
  int workers = 1, gpus = 0, threads = 0, grace_seconds = 30, stopped_exit_code = 0, first_slot = 0;
  int silence_seconds = 30;
  bool carries = true;  // the relay, command streams
  int processes() const { return workers + gpus; }
  uint64_t memory_bytes = 0;
  const std::string id = NewUuid();  // of this process
  std::string tls_cert, tls_key, tls_ca, join_token_file;
  std::string pages_token_file, role_uri = access::kRoleUri;
  bool open = false, open_pages = false;
  bool insecure = false;
};

void AddFlags(CLI::App& app, Flags& flags) {
  app.set_version_flag("--version", std::string(BuildVersion()));
  fault::AddListFlag(app, fault::Process::kSupervisor);
  app.add_option("--controller", flags.controller, "host:port of the controller")->required();
  app.add_option("--workers", flags.workers, "CPU workers to run (default: 1, with --gpus none)")
      ->check(CLI::Range(0, 1024));
  app.add_option("--gpus", flags.gpus, "CUDA workers to run, one on each of the first GPUs")
      ->check(CLI::Range(0, 1024));
  app.add_option("--first-slot", flags.first_slot,
                 "number of the first worker, where another supervisor runs on this host too")
      ->check(CLI::Range(0, 1023));
  app.add_option("--host-id", flags.host_id,
                 "name of this host; workers with another name count as being on another host, "
                 "even on the same machine (default: the host's name)")
      ->check(agent::HostIdProblem);
  app.add_option("--threads", flags.threads,
                 "CPU threads of each CPU worker (default: all, divided equally)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--memory-bytes", flags.memory_bytes,
                 "memory a plan may use on each CPU worker (default: 80 %, divided equally)")
      ->check(CLI::PositiveNumber);
  app.add_option("--listen", flags.listen,
                 "host:port of worker 0, the next ports for the others; port 0: ephemeral")
      ->capture_default_str();
  app.add_option("--advertise", flags.advertise, "host that others reach the workers by");
  app.add_option(
      "--relay", flags.relay,
      "host:port where the controller sends the workers' command streams, reads their "
      "stacks and asks to end a worker that answers nobody; \"\": off (default: two ports below "
      "worker 0; with one worker a free port, and its commands go to it)");
  app.add_option("--metrics", flags.metrics, "host:port of /metrics likewise; \"\": off")
      ->capture_default_str();
  app.add_option("--health", flags.health,
                 "host:port of grpc.health.v1 for probes, plaintext (default: off)");
  app.add_option("--state-dir", flags.state_dir, "logs, endpoint files and stacks go here")
      ->capture_default_str();
  app.add_option("--worker-binary", flags.binary,
                 "program of the CPU workers (default: coxswain-worker-cpu beside this one)");
  app.add_option("--cuda-worker-binary", flags.cuda_binary,
                 "program of the CUDA workers (default: coxswain-worker-cuda beside this one)");
  app.add_option("--grace-seconds", flags.grace_seconds, "from SIGTERM to SIGKILL")
      ->capture_default_str()
      ->check(CLI::Range(0, 86400));
  app.add_option("--silence-seconds", flags.silence_seconds,
                 "kill a worker that has given no sign of life for so long, 0: never; one that a "
                 "debugger holds is left alone")
      ->capture_default_str()
      ->check(CLI::Range(0, 86400));
  app.add_option("--stopped-exit-code", flags.stopped_exit_code,
                 "exit code after SIGTERM or SIGINT, e.g. 75 if 0 would mean done for good")
      ->capture_default_str()
      ->check(CLI::Range(0, 125));
  app.add_option("--tls-cert", flags.tls_cert, "passed to the workers");
  app.add_option("--tls-key", flags.tls_key, "passed to the workers");
  app.add_option("--tls-ca", flags.tls_ca, "passed to the workers");
  app.add_flag("--insecure", flags.insecure, "passed to the workers");
  app.add_option("--join-token-file", flags.join_token_file,
                 "file with the secret that the controller shares; passed to the workers (default: "
                 "the one that a controller of this user leaves on this machine)");
  app.add_flag("--open", flags.open, "obey anybody who reaches a port; passed to the workers");
  app.add_flag("--open-pages", flags.open_pages, "passed to the workers");
  app.add_option("--pages-token-file", flags.pages_token_file, "passed to the workers");
  app.add_option("--role-uri", flags.role_uri,
                 "beginning of the URI in a certificate that names a role; ROLE or ROLE/NAME "
                 "follows it")
      ->capture_default_str()
      ->check(access::RoleUriProblem);
}

// The address of worker `slot`: an ephemeral port stays one.
std::string Shifted(const SocketAddress& first, int slot) {
  SocketAddress address = first;
  if (address.port != 0) address.port += slot;
  return address.text();
}

// By which others reach what listens on `host` here.
std::string Reachable(const Flags& flags, const std::string& host) {
  if (!flags.advertise.empty()) return flags.advertise;
  return host == "0.0.0.0" || host == "::" ? agent::HostName() : host;
}

// Program and arguments of worker `slot`: CPU workers first, then one for each GPU. `served`: where
// the relay is, empty where it is off.
std::vector<std::string> Command(const Flags& flags, const SocketAddress& listen,
                                 const SocketAddress& metrics, const std::string& served,
                                 int slot) {
  const bool cuda = slot >= flags.workers;
  const std::string file = absl::StrCat(flags.state_dir, "/worker-", slot);
  std::vector<std::string> command = {cuda ? flags.cuda_binary : flags.binary,
                                      "--controller",
                                      flags.controller,
                                      "--slot",
                                      std::to_string(flags.first_slot + slot),
                                      "--listen",
                                      Shifted(listen, slot),
                                      "--metrics",
                                      flags.metrics.empty() ? "" : Shifted(metrics, slot),
                                      "--log-file",
                                      file + ".log",
                                      "--endpoint-file",
                                      file + ".json"};
  const auto add = [&](const std::string& name, const std::string& value) {
    if (value.empty()) return;
    command.push_back(name);
    command.push_back(value);
  };
  if (cuda) {
    add("--gpu", std::to_string(slot - flags.workers));
  } else {
    add("--threads", std::to_string(flags.threads));
    add("--memory-bytes", std::to_string(flags.memory_bytes));
  }
  add("--host-id", flags.host_id);
  add("--advertise", flags.advertise);
  if (flags.carries) add("--relay", served);
  add("--supervisor", served);
  add("--supervisor-id", flags.id);
  add("--tls-cert", flags.tls_cert);
  add("--tls-key", flags.tls_key);
  add("--tls-ca", flags.tls_ca);
  add("--join-token-file", flags.join_token_file);
  if (flags.insecure) command.push_back("--insecure");
  add("--role-uri", flags.role_uri);
  add("--pages-token-file", flags.pages_token_file);
  if (flags.open) command.push_back("--open");
  if (flags.open_pages) command.push_back("--open-pages");
  return command;
}

// Defaults that depend on the machine, and the programs that will be needed.
absl::Status FillDefaults(const CLI::App& app, Flags& flags) {
  if (app.count("--workers") == 0 && flags.gpus > 0) flags.workers = 0;
  if (flags.processes() == 0) {
    return absl::InvalidArgumentError("--workers 0 without --gpus: nothing to run");
  }
  if (flags.workers > 0 && flags.binary.empty()) {
    ASSIGN_OR_RETURN(flags.binary, supervisor::FindBinary("coxswain-worker-cpu"));
  }
  if (flags.gpus > 0 && flags.cuda_binary.empty()) {
    ASSIGN_OR_RETURN(flags.cuda_binary, supervisor::FindBinary("coxswain-worker-cuda"));
  }
  if (app.count("--relay") == 0) {
    ASSIGN_OR_RETURN(SocketAddress listen, ParseSocketAddress(flags.listen));
    flags.carries = flags.processes() > 1;
    if (!flags.carries) listen.port = 0;
    flags.relay = Shifted(listen, kRelayPort);
  }
  const int sharers = std::max(1, flags.workers);
  if (flags.threads == 0) flags.threads = std::max(1, UsableCpus() / sharers);
  if (flags.memory_bytes == 0) flags.memory_bytes = PlannableBytes(sharers);
  return absl::OkStatus();
}

int Refuse(const absl::Status& status) {
  log::Error("the supervisor cannot start", {{"error", status.ToString()}});
  return kBadConfig;
}

// Sets `address` to what the workers tell the controller; null and empty where --relay is off.
absl::StatusOr<std::unique_ptr<supervisor::Relay>> StartRelay(
    const Flags& flags, supervisor::Relay::EndWorkerFn end_worker, supervisor::StackTaker* stacks,
    std::string* address) {
  if (flags.relay.empty()) return nullptr;
  ASSIGN_OR_RETURN(SocketAddress listen, ParseSocketAddress(flags.relay));
  ASSIGN_OR_RETURN(auto relay,
                   supervisor::Relay::Start(listen,
                                            {.state_dir = flags.state_dir,
                                             .first_slot = flags.first_slot,
                                             .workers = flags.processes(),
                                             .tls = {flags.tls_cert, flags.tls_key, flags.tls_ca},
                                             .insecure = flags.insecure,
                                             .controller = flags.controller,
                                             .join_token_file = flags.join_token_file,
                                             .role_uri = flags.role_uri,
                                             .open = flags.open},
                                            std::move(end_worker), stacks));
  listen.host = Reachable(flags, listen.host);
  listen.port = relay->port();
  *address = listen.text();
  log::Info("relay served", {{"address", *address}});
  return relay;
}

int Supervise(const Flags& flags, const SocketAddress& listen, const SocketAddress& metrics) {
  std::unique_ptr<supervisor::Health> health;
  std::string relay_address;
  supervisor::SupervisorOptions options;
  options.workers = flags.processes();
  options.state_dir = flags.state_dir;
  options.grace = std::chrono::seconds(flags.grace_seconds);
  options.silence = std::chrono::seconds(flags.silence_seconds);
  options.stopped_exit_code = flags.stopped_exit_code;
  options.command = [&](int slot) { return Command(flags, listen, metrics, relay_address, slot); };
  options.on_turn = [&health](const std::vector<pid_t>& pids) {
    if (health != nullptr) health->Turn(pids);
  };
  supervisor::Supervisor supervisor(std::move(options));
  const auto relay = StartRelay(
      flags,
      [&supervisor](int slot, pid_t pid, const std::string& reason) {
        supervisor.EndWorker(slot, pid, reason);
      },
      &supervisor.stacks(), &relay_address);
  if (!relay.ok()) return Refuse(relay.status());
  if (!flags.health.empty()) {
    auto started = supervisor::Health::Start(flags.health, flags.state_dir,
                                             kLoopStall + flags.processes() * kStallOfStacks);
    if (!started.ok()) return Refuse(started.status());
    health = *std::move(started);
    log::Info("health served", {{"address", health->address()}});
  }
  return supervisor.Run();
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
  const absl::Status armed = fault::ArmFromEnvironment(fault::Process::kSupervisor);
  if (!armed.ok()) return Refuse(armed);
  const auto listen = ParseSocketAddress(flags.listen);
  if (!listen.ok()) return Refuse(listen.status());
  const auto metrics = ParseSocketAddress(flags.metrics.empty() ? "off:0" : flags.metrics);
  if (!metrics.ok()) return Refuse(metrics.status());
  if (const absl::Status status = FillDefaults(app, flags); !status.ok()) return Refuse(status);
  if (const absl::Status made = MakePrivateFolder(flags.state_dir); !made.ok()) {
    return Refuse(absl::FailedPreconditionError(absl::StrCat("--state-dir: ", made.message())));
  }

  return Supervise(flags, *listen, *metrics);
}

}  // namespace
}  // namespace coxswain

int main(int argc, char** argv) { return coxswain::Run(argc, argv); }
