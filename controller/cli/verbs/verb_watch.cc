// Verbs that follow a job: its steps, events and log lines.
#include <memory>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/format.h"
#include "common/net/event_json.h"
#include "common/net/message_json.h"
#include "common/outside_text.h"
#include "controller/cli/command/follow.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/jobs/kept_history.h"
#include "controller/cli/machine/interrupt.h"
#include "controller/cli/machine/state_dir.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/job_text.h"
#include "controller/cli/text/log_text.h"
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

namespace {

struct EventsArgs {
  std::string job;
  bool follow = false;
  std::string output = "table";
};

int Follow(Cox* cox, const EventsArgs& args) {
  FollowOptions options;
  options.on_event = [&](const v1::JobEvent& event) {
    if (args.output == "json") {
      cox->out() << EventJson(event).dump() << "\n";
    } else if (args.output == "yaml") {
      cox->out() << "---\n" << ToYaml(EventJson(event));
    } else {
      cox->out() << FormatTime(event.time_unix_ms()) << "  " << event.id() << "  "
                 << OneLine(event.type()) << "  " << StateName(event.state()) << "  "
                 << OneLine(event.message()) << "\n";
    }
    cox->out() << std::flush;
    return true;
  };
  const absl::StatusOr<v1::Job> job = FollowJob(cox, args.job, options);
  if (absl::IsCancelled(job.status())) {
    cox->err() << "detached; cancel the job with: cox cancel " << args.job << "\n";
    return kInterrupted;
  }
  return job.ok() ? static_cast<int>(kOk) : cox->Fail(job.status());
}

int Print(Cox* cox, const std::string& output, const std::vector<v1::JobEvent>& events) {
  if (!IsStructured(output)) {
    cox->out() << EventsTable(events, cox->now_unix_ms());
    return kOk;
  }
  auto list = nlohmann::ordered_json::array();
  for (const v1::JobEvent& event : events) list.push_back(EventJson(event));
  PrintStructured({{"events", list}}, output, cox->out());
  return kOk;
}

int RunKept(Cox* cox, const EventsArgs& args) {
  if (args.follow) {
    return cox->Fail(absl::InvalidArgumentError(
        absl::StrCat("-f follows a job of a controller; ", args.job, " is a folder")));
  }
  const auto kept = ReadHistory(args.job);
  if (!kept.ok()) return cox->Fail(kept.status());
  cox->err() << KeptLines(*kept);
  return Print(cox, args.output, kept->events);
}

int RunEvents(Cox* cox, const EventsArgs& args) {
  if (NamesFolder(args.job)) return RunKept(cox, args);
  if (args.follow) return Follow(cox, args);
  const auto events = ReadEvents(&cox->Server(), args.job);
  return events.ok() ? Print(cox, args.output, *events) : cox->Fail(events.status());
}

}  // namespace

void AddEvents(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<EventsArgs>();
  Verb(app, "events", "A job's history")
      .RequiredText("job", &args->job,
                    "Id, unique id prefix or name; or the output_dir of a job of cox train")
      .Flag("-f,--follow", &args->follow, "Follow until the job ends")
      .Output(&args->output, {"table", "json", "yaml"}, "one object, with -f one value per event")
      .Run(cox, [cox, args] { return RunEvents(cox, *args); });
}

namespace {

struct LogsArgs {
  std::string job;
  bool follow = false;
  int64_t rank = -1;
  int64_t tail = 1000;
  std::string output = "table";
};

int RunLogs(Cox* cox, const LogsArgs& args) {
  v1::LogsRequest request;
  request.set_job(args.job);
  request.set_rank(static_cast<int32_t>(args.rank));
  request.set_tail(static_cast<int32_t>(args.tail));
  request.set_follow(args.follow);
  const absl::Status status = cox->Server().Logs(request, [&](const v1::LogLine& line) {
    cox->out() << (args.output == "json" ? line.json() : LogText(line)) << "\n" << std::flush;
    return true;
  });
  if (InterruptSignal() != 0) {
    cox->err() << "detached; cancel the job with: cox cancel " << args.job << "\n";
    return kInterrupted;
  }
  return status.ok() ? static_cast<int>(kOk) : cox->Fail(status);
}

}  // namespace

void AddLogs(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<LogsArgs>();
  Verb(app, "logs", "Log lines of a job's workers and of the controller")
      .Job(&args->job)
      .Flag("-f,--follow", &args->follow, "Follow until the job ends")
      .Integer("--rank", &args->rank, 0, 1 << 20,
               "Only this rank (default: all ranks and the controller)")
      .Integer("--tail", &args->tail, 0, 1 << 20, "Number of newest lines to start with")
      .Output(&args->output, {"table", "json"}, "json prints the lines as they were logged")
      .Run(cox, [cox, args] { return RunLogs(cox, *args); });
}

}  // namespace coxswain::cli
