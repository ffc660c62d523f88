#include <memory>

#include "common/net/event_json.h"
#include "common/net/message_json.h"
#include "common/outside_text.h"
#include "controller/cli/command/follow.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/job_text.h"
#include "controller/cli/text/output.h"
#include "controller/cli/text/step_text.h"

namespace coxswain::cli {
namespace {

using Json = nlohmann::ordered_json;

struct StepArgs {
  std::string job;
  int64_t steps = 1;
  double timeout_seconds = 0;
  std::string output = "table";
};

// Resumes for args.steps steps and follows the job until it stands still again.
absl::StatusOr<v1::Job> Step(Cox* cox, const StepArgs& args, const std::string& id, Json* steps) {
  const auto history = ReadEvents(&cox->Server(), id);
  if (!history.ok()) return history.status();
  FollowOptions options;
  options.after_event_id = history->empty() ? 0 : history->back().id();
  options.timeout_ms = static_cast<int64_t>(args.timeout_seconds * 1000);
  options.on_event = [&](const v1::JobEvent& event) {
    if (event.type() == "StepDone") {
      steps->push_back(Json(EventData(event)));
      if (args.output == "table") cox->out() << StepText(event.step_done()) << std::flush;
    }
    return event.state() != v1::JOB_STATE_PAUSED;
  };
  const absl::StatusOr<v1::Job> resumed = cox->Server().Resume(id, args.steps);
  if (!resumed.ok()) return resumed.status();
  return FollowJob(cox, id, options);
}

int RunStep(Cox* cox, const StepArgs& args) {
  const absl::StatusOr<v1::Job> found = cox->Server().Get(args.job);
  if (!found.ok()) return cox->Fail(found.status());
  Json steps = Json::array();
  const absl::StatusOr<v1::Job> job = Step(cox, args, found->id(), &steps);
  if (absl::IsCancelled(job.status())) {
    cox->err() << "detached; " << OneLine(found->id()) << " pauses by itself after " << args.steps
               << " steps\n";
    return kInterrupted;
  }
  if (!job.ok()) return cox->Fail(job.status());
  if (IsStructured(args.output)) {
    PrintStructured({{"steps", steps}, {"job", MessageJson(*job)}}, args.output, cox->out());
  } else if (IsTerminal(job->state())) {
    cox->out() << Summary(*job);
  } else {
    cox->out() << "job " << OneLine(job->id()) << " " << StateName(job->state()) << " at step "
               << job->progress().step() << "/" << job->progress().total_steps() << "\n";
  }
  return ExitOf(job->state());
}

}  // namespace

void AddStep(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<StepArgs>();
  Verb(app, "step", "Run some steps of a paused job, print them rank by rank, pause again")
      .Job(&args->job)
      .Integer("-n,--steps", &args->steps, 1, 1 << 30, "How many steps")
      .Number("--timeout", &args->timeout_seconds, "Seconds to wait at most; then exit code 124")
      .Output(&args->output, {"table", "json", "yaml"})
      .Run(cox, [cox, args] { return RunStep(cox, *args); });
}

}  // namespace coxswain::cli
