#include "controller/cli/jobs/job_change.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/net/message_json.h"
#include "common/outside_text.h"
#include "common/status_macros.h"
#include "controller/cli/command/follow.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/job_text.h"
#include "controller/cli/text/output.h"

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

// A job whose change was accepted.
struct Asked {
  v1::Job job;
  int64_t last_event = 0;  // id of its newest event before
};

absl::StatusOr<Asked> Ask(
    Cox* cox, const std::string& word,
    const std::function<absl::StatusOr<v1::Job>(const std::string& id)>& request) {
  // A name means its newest job: settle which one before anything is sent.
  ASSIGN_OR_RETURN(const v1::Job found, cox->Server().Get(word));
  ASSIGN_OR_RETURN(const std::vector<v1::JobEvent> history, ReadEvents(&cox->Server(), found.id()));
  ASSIGN_OR_RETURN(v1::Job job, request(found.id()));
  return Asked{std::move(job), history.empty() ? 0 : history.back().id()};
}

// For at most `patience_ms`; 0: as long as it takes.
absl::StatusOr<v1::Job> Await(Cox* cox, const Asked& asked, v1::JobState goal,
                              int64_t patience_ms) {
  if (asked.job.state() == goal || IsTerminal(asked.job.state())) return asked.job;
  FollowOptions options;
  options.after_event_id = asked.last_event;
  options.timeout_ms = patience_ms;
  options.on_event = [goal](const v1::JobEvent& event) { return event.state() != goal; };
  return FollowJob(cox, asked.job.id(), options);
}

void Print(Cox* cox, const std::string& output, const std::vector<v1::Job>& jobs, bool several) {
  if (IsStructured(output)) {
    auto list = nlohmann::ordered_json::array();
    for (const v1::Job& job : jobs) list.push_back(MessageJson(job));
    if (several) {
      PrintStructured({{"jobs", list}}, output, cox->out());
    } else if (!list.empty()) {
      PrintStructured(list[0], output, cox->out());
    }
    return;
  }
  for (const v1::Job& job : jobs) {
    if (output == "name") {
      cox->out() << OneLine(job.id()) << "\n";
    } else {
      cox->out() << "job " << OneLine(job.id()) << " " << StateName(job.state()) << "\n";
    }
  }
}

}  // namespace

void AddChangeArgs(Verb* verb, ChangeArgs* args) {
  verb->Jobs(&args->jobs)
      .Flag("--no-wait", &args->no_wait, "Return as soon as the request is accepted")
      .Number("--timeout", &args->timeout_seconds, "Seconds to wait at most; then exit code 124")
      .Output(&args->output, {"table", "name", "json", "yaml"})
      .Footer("Every job is tried; the exit code is the highest of theirs.");
}

absl::Status OfJob(const std::vector<std::string>& jobs, const std::string& job,
                   const absl::Status& status) {
  if (status.ok() || jobs.size() == 1) return status;
  return absl::Status(status.code(), absl::StrCat(job, ": ", status.message()));
}

int ChangeJobs(Cox* cox, const ChangeArgs& args, v1::JobState goal,
               const std::function<absl::StatusOr<v1::Job>(const std::string& id)>& request) {
  const auto start = std::chrono::steady_clock::now();
  const auto patience_ms = [&]() -> int64_t {
    if (args.timeout_seconds == 0) return 0;
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    return std::max<int64_t>(1,
                             static_cast<int64_t>(1000 * (args.timeout_seconds - spent.count())));
  };
  int code = kOk;
  std::vector<std::pair<std::string, Asked>> accepted;
  for (const std::string& word : args.jobs) {
    absl::StatusOr<Asked> asked = Ask(cox, word, request);
    if (asked.ok()) {
      accepted.emplace_back(word, *std::move(asked));
    } else {
      code = std::max(code, cox->Fail(OfJob(args.jobs, word, asked.status())));
    }
  }
  std::vector<v1::Job> changed;
  for (const auto& [word, asked] : accepted) {
    absl::StatusOr<v1::Job> job = asked.job;
    if (!args.no_wait) {
      job = Await(cox, asked, goal, patience_ms());
      if (job.ok()) TellOutcome(cox, job->id(), asked.last_event);
    }
    if (!job.ok()) {
      code = std::max(code, cox->Fail(OfJob(args.jobs, word, job.status())));
      continue;
    }
    const bool missed = IsTerminal(job->state()) && job->state() != goal && !args.no_wait;
    if (missed) code = std::max<int>(code, kFailed);
    changed.push_back(*std::move(job));
  }
  Print(cox, args.output, changed, args.jobs.size() > 1);
  return code;
}

JobStep SplitStep(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {text};
  int64_t step = -1;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data() + colon + 1, end, step);
  if (error != std::errc() || at != end) return {text};
  return {text.substr(0, colon), step};
}

}  // namespace coxswain::cli
