#include <memory>

#include "common/host.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/command/verbs.h"
#include "controller/cli/connect/cluster.h"
#include "controller/cli/text/exit_code.h"

namespace coxswain::cli {
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
