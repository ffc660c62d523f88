#include <memory>

#include "absl/strings/str_cat.h"
#include "common/format.h"
#include "common/net/event_json.h"
#include "common/outside_text.h"
#include "controller/cli/command/follow.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/command/verbs.h"
#include "controller/cli/jobs/kept_history.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/job_text.h"
#include "controller/cli/text/output.h"

namespace coxswain::cli {
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

}  // namespace coxswain::cli
