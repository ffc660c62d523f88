#include <memory>

#include "common/event_json.h"
#include "common/message_json.h"
#include "controller/cli/describe_text.h"
#include "controller/cli/exit_code.h"
#include "controller/cli/follow.h"
#include "controller/cli/output.h"
#include "controller/cli/verb.h"
#include "controller/cli/verbs.h"

namespace coxswain::cli {
namespace {

struct DescribeArgs {
  std::string job;
  std::string output = "table";
};

int RunDescribe(Cox* cox, const DescribeArgs& args) {
  const absl::StatusOr<v1::Job> job = cox->Server().Get(args.job);
  if (!job.ok()) return cox->Fail(job.status());
  const auto events = ReadEvents(&cox->Server(), job->id());
  if (!events.ok()) return cox->Fail(events.status());
  if (!IsStructured(args.output)) {
    cox->out() << DescribeText(*job, *events, cox->now_unix_ms());
    return kOk;
  }
  auto json = MessageJson(*job);
  auto list = nlohmann::ordered_json::array();
  for (const v1::JobEvent& event : *events) list.push_back(EventJson(event));
  json["events"] = std::move(list);
  PrintStructured(json, args.output, cox->out());
  return kOk;
}

}  // namespace

void AddDescribe(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<DescribeArgs>();
  Verb(app, "describe", "Everything about one job")
      .Job(&args->job)
      .Output(&args->output, {"table", "json", "yaml"})
      .Run(cox, [cox, args] { return RunDescribe(cox, *args); });
}

}  // namespace coxswain::cli
