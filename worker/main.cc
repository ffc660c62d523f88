// coxswain-worker-cpu: one worker process.
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "common/build_info.h"
#include "common/durable_file.h"
#include "common/logging.h"
#include "worker/agent/host_info.h"
#include "worker/agent/worker_node.h"

namespace coxswain {
namespace {

struct Flags {
  agent::WorkerOptions worker;
  std::string log_file;
  std::string endpoint_file;
};

void AddFlags(CLI::App& app, Flags& flags) {
  agent::WorkerOptions& worker = flags.worker;
  app.set_version_flag("--version", std::string(BuildVersion()));
  app.add_option("--controller", worker.controller, "host:port of the controller")->required();
  app.add_option("--slot", worker.slot, "0-based number of this worker on its host")
      ->check(CLI::Range(0, 1023));
  app.add_option("--listen", worker.listen, "host:port to serve (default 127.0.0.1:7080+slot)");
  app.add_option("--advertise", worker.advertise,
                 "host that controller and workers reach this one by (default: that of --listen)");
  app.add_option("--metrics", worker.metrics,
                 "host:port of /metrics (default 127.0.0.1:7180+slot, \"\": off)");
  app.add_option("--threads", worker.threads, "CPU threads of compute (default: all)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--memory-bytes", worker.memory_bytes,
                 "memory a plan may use (default: 80 % of what this process may have)")
      ->check(CLI::PositiveNumber);
  app.add_option("--tls-cert", worker.tls.cert, "PEM certificate of this worker");
  app.add_option("--tls-key", worker.tls.key, "PEM key of this worker");
  app.add_option("--tls-ca", worker.tls.ca, "PEM certificate of the authority to trust");
  app.add_flag("--insecure", worker.insecure,
               "plaintext on loopback although certificates are given");
  app.add_option("--log-file", flags.log_file, "write the log to this file too");
  app.add_option("--endpoint-file", flags.endpoint_file,
                 "write the addresses served as JSON to this file");
}

void FillDefaults(const CLI::App& app, agent::WorkerOptions& worker) {
  if (app.count("--listen") == 0) worker.listen = "127.0.0.1:" + std::to_string(7080 + worker.slot);
  if (app.count("--metrics") == 0) {
    worker.metrics = "127.0.0.1:" + std::to_string(7180 + worker.slot);
  }
  if (app.count("--threads") == 0) worker.threads = agent::UsableCpus();
  if (app.count("--memory-bytes") == 0) worker.memory_bytes = agent::PlannableBytes(1);
}

// OpenMP and OpenBLAS read their thread counts when they are loaded, before main: the process
// starts itself again under the right ones, so that the count is exactly --threads everywhere.
void PinThreads(int threads, char** argv) {
  const std::string count = std::to_string(threads);
  bool pinned = true;
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}) {
    const char* value = std::getenv(name);
    pinned = pinned && value != nullptr && count == value;
    setenv(name, count.c_str(), 1);
  }
  if (pinned) return;
  execv("/proc/self/exe", argv);
  std::perror("coxswain-worker-cpu: cannot start itself again with pinned threads");
  std::_Exit(1);
}

absl::Status WriteEndpoint(const std::string& path, const agent::WorkerNode& node) {
  if (path.empty()) return absl::OkStatus();
  const nlohmann::json endpoint = {{"address", node.address()},
                                   {"metrics_address", node.metrics_address()},
                                   {"incarnation", node.incarnation()},
                                   {"pid", getpid()}};
  return WriteFileDurably(path, endpoint.dump() + "\n");
}

// Until a first SIGTERM or SIGINT has drained the worker. A second one ends the process now.
void WaitForEnd(const sigset_t& signals, agent::WorkerNode& node) {
  int signal = 0;
  sigwait(&signals, &signal);
  log::Info("signal", {{"signal", strsignal(signal)}});
  node.Drain();
  const timespec poll{0, 50'000'000};
  while (!node.Drained()) {
    signal = sigtimedwait(&signals, nullptr, &poll);
    if (signal > 0) {
      log::Warning("second signal: leaving now", {{"signal", strsignal(signal)}});
      std::_Exit(128 + signal);
    }
  }
}

int Run(int argc, char** argv) {
  Flags flags;
  CLI::App app{"Coxswain worker: executes one rank's part of training jobs"};
  AddFlags(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : agent::kExitBadConfig;
  }
  FillDefaults(app, flags.worker);
  PinThreads(flags.worker.threads, argv);

  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // inherited by every thread started below
  signal(SIGPIPE, SIG_IGN);

  log::Init("worker", log::Level::kInfo, flags.log_file);
  flags.worker.exit = [](int code, const std::string& why) {
    log::Error("the worker ends", {{"exit_code", code}, {"error", why}});
    std::_Exit(code);
  };
  auto node = agent::WorkerNode::Start(flags.worker);
  if (node.ok()) {
    if (absl::Status status = WriteEndpoint(flags.endpoint_file, **node); !status.ok())
      node = status;
  }
  if (!node.ok()) {
    log::Error("the worker cannot start", {{"error", node.status().ToString()}});
    const bool config = node.status().code() == absl::StatusCode::kInvalidArgument ||
                        node.status().code() == absl::StatusCode::kFailedPrecondition;
    return config ? agent::kExitBadConfig : 1;
  }
  log::Info("serving", {{"address", (*node)->address()},
                        {"metrics", (*node)->metrics_address()},
                        {"slot", flags.worker.slot},
                        {"threads", flags.worker.threads},
                        {"memory_bytes", flags.worker.memory_bytes}});
  WaitForEnd(signals, **node);
  log::Info("drained");
  std::string endpoint = flags.endpoint_file;
  node->reset();
  if (!endpoint.empty()) std::remove(endpoint.c_str());
  return agent::kExitDrained;
}

}  // namespace
}  // namespace coxswain

int main(int argc, char** argv) { return coxswain::Run(argc, argv); }
