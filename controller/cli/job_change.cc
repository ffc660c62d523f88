#include "controller/cli/job_change.h"

#include "common/message_json.h"
#include "common/outside_text.h"
#include "controller/cli/exit_code.h"
#include "controller/cli/follow.h"
#include "controller/cli/job_text.h"
#include "controller/cli/output.h"

namespace coxswain::cli {
namespace {

// What the change came to beside the state: checkpoints that it made, and warnings.
void TellOutcome(Cox* cox, const std::string& id, int64_t after_event_id) {
  v1::WatchRequest request;
  request.set_job(id);
  request.set_after_event_id(after_event_id);
  const auto tell = [cox](const v1::JobEvent& event) {
    if (event.has_checkpoint_committed()) {
      cox->err() << OneLine(event.message()) << ": "
                 << OneLine(event.checkpoint_committed().directory()) << "\n";
    } else if (event.type() == "Warning" || event.type() == "CheckpointFailed") {
      cox->err() << "cox: warning: " << OneLine(event.message()) << "\n";
    }
    return true;
  };
  cox->Server().Watch(request, tell).IgnoreError();  // the change is made, told or not
}

}  // namespace

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
  if (!args.no_wait) TellOutcome(cox, id, last_event);
  if (IsStructured(args.output)) {
    PrintStructured(MessageJson(*job), args.output, cox->out());
  } else if (args.output == "name") {
    cox->out() << OneLine(id) << "\n";
  } else {
    cox->out() << "job " << OneLine(id) << " " << StateName(job->state()) << "\n";
  }
  return IsTerminal(job->state()) && job->state() != goal && !args.no_wait ? kFailed : kOk;
}

}  // namespace coxswain::cli
