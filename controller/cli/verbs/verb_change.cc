// Verbs that change jobs.
#include <algorithm>
#include <memory>

#include "common/net/message_json.h"
#include "common/outside_text.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/jobs/job_change.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/job_text.h"
#include "controller/cli/text/output.h"

namespace coxswain::cli {

void AddCancel(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<ChangeArgs>();
  auto checkpoint = std::make_shared<bool>(false);
  Verb verb(app, "cancel", "Cancel jobs at the next step boundary");
  AddChangeArgs(&verb, args.get());
  verb.Flag("--checkpoint", checkpoint.get(),
            "Save a checkpoint of each job where it stops; a later job continues from it with "
            "checkpoint.resume");
  verb.Run(cox, [cox, args, checkpoint] {
    return ChangeJobs(
        cox, *args, v1::JOB_STATE_CANCELLED,
        [cox, checkpoint](const std::string& id) { return cox->Server().Cancel(id, *checkpoint); });
  });
}

void AddPause(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<ChangeArgs>();
  Verb verb(app, "pause", "Pause jobs at the next step boundary, with a checkpoint");
  AddChangeArgs(&verb, args.get());
  verb.Run(cox, [cox, args] {
    return ChangeJobs(cox, *args, v1::JOB_STATE_PAUSED,
                      [cox](const std::string& id) { return cox->Server().Pause(id); });
  });
}

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

void AddDelete(CLI::App* app, Cox* cox) {
  auto jobs = std::make_shared<std::vector<std::string>>();
  Verb(app, "delete", "Remove the records of ended jobs; their files stay")
      .Jobs(jobs.get())
      .Footer("Every job is tried; the exit code is the highest of theirs.")
      .Run(cox, [cox, jobs] {
        int code = kOk;
        for (const std::string& job : *jobs) {
          const absl::Status status = cox->Server().Delete(job);
          if (status.ok()) {
            cox->out() << "job " << job << " deleted\n";
          } else {
            code = std::max(code, cox->Fail(OfJob(*jobs, job, status)));
          }
        }
        return code;
      });
}

}  // namespace coxswain::cli
