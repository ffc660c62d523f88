#include <memory>

#include "common/net/message_json.h"
#include "controller/cli/command/follow.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/command/verbs.h"
#include "controller/cli/machine/state_dir.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/job_text.h"
#include "controller/cli/text/output.h"

namespace coxswain::cli {
namespace {

struct WatchArgs {
  std::string job;
  std::string progress = "auto";
  double timeout_seconds = 0;
  std::string output = "table";
};

int RunWatch(Cox* cox, const WatchArgs& args) {
  FollowOptions options;
  options.progress = ParseProgressMode(args.progress, cox->terminal.err_tty);
  options.timeout_ms = static_cast<int64_t>(args.timeout_seconds * 1000);
  const absl::StatusOr<v1::Job> job = FollowJob(cox, args.job, options);
  if (absl::IsCancelled(job.status())) {
    cox->err() << "detached; " << args.job << " goes on. Cancel it with: cox cancel " << args.job
               << "\n";
    return kInterrupted;
  }
  if (!job.ok()) return cox->Fail(job.status());
  if (IsStructured(args.output)) {
    PrintStructured(MessageJson(*job), args.output, cox->out());
  } else {
    cox->out() << Summary(*job);
  }
  return ExitOf(job->state());
}

}  // namespace

void AddWatch(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<WatchArgs>();
  Verb(app, "watch", "Show progress until the job ends; the exit code is the job's")
      .Job(&args->job)
      .Progress(&args->progress)
      .Number("--timeout", &args->timeout_seconds, "Seconds to watch at most; then exit code 124")
      .Output(&args->output, {"table", "json", "yaml"}, "how the ended job is printed")
      .Run(cox, [cox, args] { return RunWatch(cox, *args); });
}

}  // namespace coxswain::cli
