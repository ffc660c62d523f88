// The cluster of this machine, started and stopped.
#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/host.h"
#include "common/status_macros.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/connect/cluster.h"
#include "controller/cli/machine/interrupt.h"
#include "controller/cli/machine/local_resources.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/output.h"

namespace coxswain::cli {
namespace {

struct UpArgs {
  int64_t workers = -1;  // -1: as `gpus` says
  std::string gpus;      // a number or "all"; empty: none, or by what is here without `workers` too
  int64_t threads = 0;   // 0: every core, shared by the workers
  bool prometheus = false;
  bool foreground = false;
  bool open = false;
  std::string output = "table";
};

std::string WorkersText(const Cluster& cluster) {
  const auto count = [](int n, const char* what) {
    return absl::StrCat(n, " ", what, n == 1 ? " worker" : " workers");
  };
  if (cluster.gpus == 0) return count(cluster.workers, "CPU");
  if (cluster.workers == 0) return count(cluster.gpus, "GPU");
  return absl::StrCat(count(cluster.workers, "CPU"), " and ", count(cluster.gpus, "GPU"));
}

// What to run: the GPUs are listed now, where their number was not given.
absl::StatusOr<ClusterArgs> Wanted(Cox* cox, const UpArgs& args, const std::string& directory) {
  ClusterArgs wanted;
  wanted.directory = directory;
  wanted.prometheus = args.prometheus;
  wanted.die_with_parent = args.foreground;
  wanted.open = args.open;
  if (args.gpus == "all") {
    ASSIGN_OR_RETURN(const std::vector<std::string> gpus, ListGpus(directory));
    wanted.gpus = static_cast<int>(gpus.size());
  } else if (args.gpus.empty() && args.workers < 0) {
    const Gpus gpus = ListGpus(directory);
    if (absl::IsCancelled(gpus.status())) return gpus.status();
    const LocalResources local = AllLocally(gpus);
    cox->err() << local.line << "\n";
    const bool cuda = local.chosen.device == config::Device::kCuda;
    if (cuda) wanted.gpus = static_cast<int>(*local.chosen.workers);
  } else if (!args.gpus.empty() && (!absl::SimpleAtoi(args.gpus, &wanted.gpus) || wanted.gpus < 0 ||
                                    wanted.gpus > 1024)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--gpus ", args.gpus, ": expected a number of GPUs or all"));
  }
  wanted.workers = args.workers >= 0 ? static_cast<int>(args.workers) : wanted.gpus > 0 ? 0 : 1;
  if (wanted.workers + wanted.gpus == 0) {
    return absl::InvalidArgumentError("no workers: give --workers or --gpus at least 1");
  }
  wanted.threads = static_cast<int>(args.threads > 0 ? args.threads
                                                     : SharedThreads(wanted.workers + wanted.gpus));
  return wanted;
}

// Where the next cox would talk to another controller than this one.
void TellOfContext(Cox* cox, const std::string& address) {
  const absl::StatusOr<Connection> next = FindConnection(cox->flags);
  if (!next.ok() || next->server == address) return;
  cox->err() << "cox still talks to " << next->server
             << (next->context.empty() ? "" : " (context " + next->context + ")")
             << ". For this controller: cox --server " << address
             << (next->context.empty() ? "\n" : ", or cox config use-context --none\n");
}

void Print(Cox* cox, const UpArgs& args, const Cluster& cluster) {
  if (IsStructured(args.output)) {
    PrintStructured({{"grpc", cluster.endpoint.grpc},
                     {"metrics", cluster.endpoint.metrics},
                     {"prometheus", cluster.prometheus.address},
                     {"workers", cluster.workers},
                     {"gpus", cluster.gpus},
                     {"controller_pid", cluster.controller.pid},
                     {"supervisor_pid", cluster.supervisor.pid},
                     {"directory", cluster.directory}},
                    args.output, cox->out());
  } else {
    cox->out() << "controller " << cluster.endpoint.grpc << " (pid " << cluster.controller.pid
               << "), metrics http://" << cluster.endpoint.metrics << "/metrics, "
               << WorkersText(cluster) << "\n"
               << "status page http://" << cluster.endpoint.metrics << "/\n";
    if (!cluster.prometheus.address.empty()) {
      cox->out() << "prometheus http://" << cluster.prometheus.address << "\n";
    }
    if (args.open) cox->err() << "open: whoever reaches a port may do everything\n";
    cox->err() << "state and logs: " << cluster.directory << ". Stop with: cox down\n";
    TellOfContext(cox, cluster.endpoint.grpc);
  }
  cox->out() << std::flush;
}

bool BothRun(const Cluster& cluster) {
  return IsRunning(cluster.controller) && IsRunning(cluster.supervisor);
}

// Until an interrupt, or until one of the two processes ends.
int StayInForeground(Cox* cox, const Cluster& cluster) {
  while (!WaitForInterrupt(200)) {
    if (const absl::Status ended = CheckProcesses(cluster); !ended.ok()) {
      const int code = cox->Fail(ended);
      StopCluster(cluster);
      return code;
    }
  }
  cox->err() << "shutting down\n";
  StopCluster(cluster);
  return kInterrupted;
}

bool AllRun(const Cluster& cluster, const ClusterArgs& wanted) {
  return BothRun(cluster) && (!wanted.prometheus || IsRunning(cluster.prometheus.process));
}

int RunUp(Cox* cox, const UpArgs& args) {
  const std::string directory = StateDir();
  const auto lock = ClusterLock::Take(directory);
  if (!lock.ok()) return cox->Fail(lock.status());
  const auto running = FindCluster(directory);
  if (!running.ok()) return cox->Fail(running.status());
  const auto wanted = Wanted(cox, args, directory);
  if (!wanted.ok()) return cox->Fail(wanted.status());
  const bool same = running->has_value() && (*running)->workers == wanted->workers &&
                    (*running)->gpus == wanted->gpus;
  if (running->has_value() && (!same || args.foreground || AllRun(**running, *wanted))) {
    if (same && !args.foreground) {
      cox->err() << "already up\n";
      Print(cox, args, **running);
      return kOk;
    }
    cox->err() << "cox: already up at " << (*running)->endpoint.grpc << " with "
               << WorkersText(**running) << "; stop it with: cox down\n";
    return kFailed;
  }
  const auto cluster = StartCluster(*wanted, *running);
  if (!cluster.ok()) return cox->Fail(cluster.status());
  Print(cox, args, *cluster);
  return args.foreground ? StayInForeground(cox, *cluster) : static_cast<int>(kOk);
}

}  // namespace

void AddUp(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<UpArgs>();
  Verb(app, "up", "Start a controller and workers on this machine")
      .Integer("--workers", &args->workers, 0, 1024,
               "Number of CPU workers (default: 0 with --gpus, 1 if there is no GPU)")
      .Text("--gpus", &args->gpus,
            "Number of GPUs to run a worker on each, or all (default: all, without --workers)")
      .Integer("--threads", &args->threads, 1, 1024,
               "CPU threads of each CPU worker (default: every core, shared by the workers)")
      .Flag("--with-prometheus", &args->prometheus,
            "Also start a Prometheus that scrapes them (Debian package prometheus)")
      .Flag("--open", &args->open,
            "Whoever has an account on this machine may submit, cancel and read everything")
      .Flag("--foreground", &args->foreground, "Stay until Ctrl-C, then stop everything")
      .Output(&args->output, {"table", "json", "yaml"})
      .Run(cox, [cox, args] { return RunUp(cox, *args); });
}

namespace {

int RunDown(Cox* cox) {
  const std::string directory = StateDir();
  const auto lock = ClusterLock::Take(directory);
  if (!lock.ok()) return cox->Fail(lock.status());
  const auto cluster = FindCluster(directory);
  if (!cluster.ok()) return cox->Fail(cluster.status());
  if (!cluster->has_value()) {
    cox->err() << "nothing is up\n";
    return kOk;
  }
  const bool clean = StopCluster(**cluster);
  cox->out() << "controller and workers stopped\n";
  if (!clean)
    cox->err() << "cox: a process did not stop by itself and was killed; see " << directory << "\n";
  return clean ? kOk : kFailed;
}

}  // namespace

void AddDown(CLI::App* app, Cox* cox) {
  Verb(app, "down", "Stop the processes of `cox up`; unfinished jobs continue at the next up")
      .Run(cox, [cox] { return RunDown(cox); });
}

}  // namespace coxswain::cli
