#include <memory>

#include "common/net/message_json.h"
#include "common/outside_text.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/command/verbs.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/job_text.h"
#include "controller/cli/text/output.h"

namespace coxswain::cli {
namespace {

struct ResumeArgs {
  std::string job;
  std::string output = "table";
};

int RunResume(Cox* cox, const ResumeArgs& args) {
  const absl::StatusOr<v1::Job> job = cox->Server().Resume(args.job, /*steps=*/0);
  if (!job.ok()) return cox->Fail(job.status());
  if (IsStructured(args.output)) {
    PrintStructured(MessageJson(*job), args.output, cox->out());
  } else {
    cox->out() << "job " << OneLine(job->id()) << " resumed (" << StateName(job->state()) << ")\n";
  }
  return kOk;
}

}  // namespace

void AddResume(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<ResumeArgs>();
  Verb(app, "resume", "Let a paused job run again")
      .Job(&args->job)
      .Output(&args->output, {"table", "json", "yaml"})
      .Run(cox, [cox, args] { return RunResume(cox, *args); });
}

}  // namespace coxswain::cli
