#include <memory>

#include "common/format.h"
#include "controller/cli/exit_code.h"
#include "controller/cli/follow.h"
#include "controller/cli/job_text.h"
#include "controller/cli/message_json.h"
#include "controller/cli/output.h"
#include "controller/cli/verb.h"
#include "controller/cli/verbs.h"

namespace coxswain::cli {
namespace {

struct Args {
  std::string job;
  bool follow = false;
  std::string output = "table";
};

int Follow(Cox* cox, const Args& args) {
  FollowOptions options;
  options.on_event = [&](const v1::JobEvent& event) {
    if (args.output == "json") {
      cox->out() << MessageJson(event).dump() << "\n";
    } else if (args.output == "yaml") {
      cox->out() << "---\n" << ToYaml(MessageJson(event));
    } else {
      cox->out() << FormatTime(event.time_unix_ms()) << "  " << event.id() << "  " << event.type()
                 << "  " << StateName(event.state()) << "  " << event.message() << "\n";
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

int Run(Cox* cox, const Args& args) {
  if (args.follow) return Follow(cox, args);
  const auto events = ReadEvents(&cox->Server(), args.job);
  if (!events.ok()) return cox->Fail(events.status());
  if (!IsStructured(args.output)) {
    cox->out() << EventsTable(*events, cox->now_unix_ms());
    return kOk;
  }
  auto list = nlohmann::ordered_json::array();
  for (const v1::JobEvent& event : *events) list.push_back(MessageJson(event));
  PrintStructured({{"events", list}}, args.output, cox->out());
  return kOk;
}

}  // namespace

void AddEvents(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<Args>();
  Verb(app, "events", "A job's history")
      .Job(&args->job)
      .Flag("-f,--follow", &args->follow, "Go on until the job ends")
      .Output(&args->output, {"table", "json", "yaml"}, "one object, with -f one value per event")
      .Run(cox, [cox, args] { return Run(cox, *args); });
}

}  // namespace coxswain::cli
