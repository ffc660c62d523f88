#include "controller/cli/jobs/stop_training.h"

#include <chrono>

#include "common/outside_text.h"
#include "controller/cli/command/follow.h"
#include "controller/cli/machine/interrupt.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/job_text.h"

namespace coxswain::cli {
namespace {

constexpr int64_t kPatienceMs = 30000;

// The job as it stands, whatever was said before.
absl::StatusOr<v1::Job> CancelWithCheckpoint(Cox* cox, const std::string& id) {
  const absl::StatusOr<v1::Job> asked = cox->Server().Cancel(id, /*with_checkpoint=*/true);
  if (!asked.ok()) return asked;
  FollowOptions options;
  options.timeout_ms = kPatienceMs;
  return FollowJob(cox, id, options);
}

}  // namespace

bool StopTraining(Cox* cox, const std::string& id,
                  const std::function<std::string(const std::string& checkpoint)>& resume) {
  const std::string name = OneLine(id);
  cox->err() << "\ninterrupted: saving a checkpoint of " << name
             << ", for at most 30 s; Ctrl-C again stops without it\n";
  ClearInterrupt();
  absl::StatusOr<v1::Job> job = CancelWithCheckpoint(cox, id);
  const bool hurried = InterruptSignal() != 0;
  if (hurried) ClearInterrupt();  // what follows is to be said all the same
  if (!job.ok()) {
    cox->err() << (hurried ? "\n" : "") << name << ": "
               << (hurried ? "stopped without waiting"
                           : OneLine(std::string(job.status().message())))
               << "\n";
    job = cox->Server().Get(id, std::chrono::seconds(2));
  }
  if (!job.ok()) return hurried;
  if (IsTerminal(job->state())) cox->err() << name << ": " << StateName(job->state()) << "\n";
  if (job->checkpoints().empty()) {
    cox->err() << "no checkpoint was saved: the next run begins at the first step\n";
    return hurried;
  }
  const v1::CheckpointInfo& last = *job->checkpoints().rbegin();
  cox->err() << "checkpoint:  " << OneLine(last.directory()) << " (step " << last.step() << ")\n"
             << "go on with:  " << OneLine(resume(last.directory())) << "\n";
  return hurried;
}

}  // namespace coxswain::cli
