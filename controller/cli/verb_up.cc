#include <memory>

#include "common/xdg.h"
#include "controller/cli/cluster.h"
#include "controller/cli/exit_code.h"
#include "controller/cli/interrupt.h"
#include "controller/cli/output.h"
#include "controller/cli/verb.h"
#include "controller/cli/verbs.h"

namespace coxswain::cli {
namespace {

struct Args {
  int64_t workers = 1;
  int64_t threads = 1;
  bool foreground = false;
  std::string output = "table";
};

void Print(Cox* cox, const Args& args, const Cluster& cluster) {
  if (IsStructured(args.output)) {
    PrintStructured({{"grpc", cluster.endpoint.grpc},
                     {"metrics", cluster.endpoint.metrics},
                     {"workers", cluster.workers},
                     {"controller_pid", cluster.controller.pid},
                     {"supervisor_pid", cluster.supervisor.pid},
                     {"directory", cluster.directory}},
                    args.output, cox->out());
  } else {
    cox->out() << "controller " << cluster.endpoint.grpc << " (pid " << cluster.controller.pid
               << "), metrics http://" << cluster.endpoint.metrics << "/metrics, "
               << cluster.workers << (cluster.workers == 1 ? " worker\n" : " workers\n");
    cox->err() << "state and logs: " << cluster.directory << ". Stop with: cox down\n";
  }
  cox->out() << std::flush;
}

bool BothRun(const Cluster& cluster) {
  return IsRunning(cluster.controller) && IsRunning(cluster.supervisor);
}

// Until an interrupt, or until one of the two processes ends.
int StayInForeground(Cox* cox, const Cluster& cluster) {
  while (!WaitForInterrupt(200)) {
    if (!BothRun(cluster)) {
      cox->err() << "cox: " << (IsRunning(cluster.controller) ? "the supervisor" : "the controller")
                 << " ended by itself; its log is in " << cluster.directory << "\n";
      StopCluster(cluster);
      return kFailed;
    }
  }
  cox->err() << "shutting down\n";
  StopCluster(cluster);
  return kInterrupted;
}

int Run(Cox* cox, const Args& args) {
  const std::string directory = StateDir();
  const auto lock = ClusterLock::Take(directory);
  if (!lock.ok()) return cox->Fail(lock.status());
  const auto running = FindCluster(directory);
  if (!running.ok()) return cox->Fail(running.status());
  if (running->has_value() &&
      ((*running)->workers != args.workers || args.foreground || BothRun(**running))) {
    if ((*running)->workers == args.workers && !args.foreground) {
      cox->err() << "already up\n";
      Print(cox, args, **running);
      return kOk;
    }
    cox->err() << "cox: already up at " << (*running)->endpoint.grpc << " with "
               << (*running)->workers << " workers; stop it with: cox down\n";
    return kFailed;
  }
  const auto cluster = StartCluster({.directory = directory,
                                     .workers = static_cast<int>(args.workers),
                                     .threads = static_cast<int>(args.threads),
                                     .die_with_parent = args.foreground},
                                    *running);
  if (!cluster.ok()) return cox->Fail(cluster.status());
  Print(cox, args, *cluster);
  return args.foreground ? StayInForeground(cox, *cluster) : static_cast<int>(kOk);
}

}  // namespace

void AddUp(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<Args>();
  Verb(app, "up", "Start a controller and CPU workers on this machine")
      .Integer("--workers", &args->workers, 1, 1024, "Number of workers")
      .Integer("--threads", &args->threads, 1, 1024, "CPU threads of each worker")
      .Flag("--foreground", &args->foreground, "Stay until Ctrl-C, then stop everything")
      .Output(&args->output, {"table", "json", "yaml"})
      .Run(cox, [cox, args] { return Run(cox, *args); });
}

}  // namespace coxswain::cli
