#include "controller/cli/job_change.h"

#include "common/message_json.h"
#include "controller/cli/exit_code.h"
#include "controller/cli/follow.h"
#include "controller/cli/job_text.h"
#include "controller/cli/output.h"

namespace coxswain::cli {

void AddChangeArgs(Verb* verb, ChangeArgs* args) {
  verb->Job(&args->job)
      .Flag("--no-wait", &args->no_wait, "Return as soon as the request is accepted")
      .Number("--timeout", &args->timeout_seconds, "Seconds to wait at most; then exit code 124")
      .Output(&args->output, {"table", "name", "json", "yaml"});
}

int ChangeJob(Cox* cox, const ChangeArgs& args, v1::JobState goal,
              const std::function<absl::StatusOr<v1::Job>(const std::string& id)>& request) {
  // A name means its newest job: settle which one before anything is sent.
  absl::StatusOr<v1::Job> job = cox->Server().Get(args.job);
  if (!job.ok()) return cox->Fail(job.status());
  const std::string id = job->id();
  int64_t last_event = 0;
  const auto history = ReadEvents(&cox->Server(), id);
  if (!history.ok()) return cox->Fail(history.status());
  if (!history->empty()) last_event = history->back().id();
  job = request(id);
  if (!job.ok()) return cox->Fail(job.status());
  if (!args.no_wait && job->state() != goal && !IsTerminal(job->state())) {
    FollowOptions options;
    options.after_event_id = last_event;
    options.timeout_ms = static_cast<int64_t>(args.timeout_seconds * 1000);
    options.on_event = [goal](const v1::JobEvent& event) { return event.state() != goal; };
    job = FollowJob(cox, id, options);
    if (!job.ok()) return cox->Fail(job.status());
  }
  if (IsStructured(args.output)) {
    PrintStructured(MessageJson(*job), args.output, cox->out());
  } else if (args.output == "name") {
    cox->out() << id << "\n";
  } else {
    cox->out() << "job " << id << " " << StateName(job->state()) << "\n";
  }
  return IsTerminal(job->state()) && job->state() != goal && !args.no_wait ? kFailed : kOk;
}

}  // namespace coxswain::cli
