// What a job is, and why it is in its state.
#include <memory>

#include "common/net/event_json.h"
#include "common/net/message_json.h"
#include "controller/cli/command/follow.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/jobs/kept_history.h"
#include "controller/cli/text/describe_text.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/output.h"

namespace coxswain::cli {
namespace {

struct DescribeArgs {
  std::string job;
  std::string output = "table";
};

void Print(Cox* cox, const std::string& output, const v1::Job& job,
           const std::vector<v1::JobEvent>& events, const std::string& next) {
  if (!IsStructured(output)) {
    cox->out() << DescribeText(job, events, cox->now_unix_ms()) << next;
    return;
  }
  auto json = MessageJson(job);
  auto list = nlohmann::ordered_json::array();
  for (const v1::JobEvent& event : events) list.push_back(EventJson(event));
  json["events"] = std::move(list);
  PrintStructured(json, output, cox->out());
}

int RunKept(Cox* cox, const DescribeArgs& args) {
  const auto kept = ReadHistory(args.job);
  if (!kept.ok()) return cox->Fail(kept.status());
  cox->err() << KeptLines(*kept);
  Print(cox, args.output, kept->job, kept->events, /*next=*/"");
  return kOk;
}

int RunDescribe(Cox* cox, const DescribeArgs& args) {
  if (NamesFolder(args.job)) return RunKept(cox, args);
  const absl::StatusOr<v1::Job> job = cox->Server().Get(args.job);
  if (!job.ok()) return cox->Fail(job.status());
  const auto events = ReadEvents(&cox->Server(), job->id());
  if (!events.ok()) return cox->Fail(events.status());
  Print(cox, args.output, *job, *events, NextText(*job));
  return kOk;
}

}  // namespace

void AddDescribe(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<DescribeArgs>();
  Verb(app, "describe", "Everything about one job")
      .RequiredText("job", &args->job,
                    "Id, unique id prefix or name; or the output_dir of a job of cox train")
      .Output(&args->output, {"table", "json", "yaml"})
      .Run(cox, [cox, args] { return RunDescribe(cox, *args); });
}

namespace {

struct ExplainArgs {
  std::string job;
  std::string output = "table";
};

int RunExplain(Cox* cox, const ExplainArgs& args) {
  const absl::StatusOr<v1::ExplainResponse> explained = cox->Server().Explain(args.job);
  if (!explained.ok()) return cox->Fail(explained.status());
  if (IsStructured(args.output)) {
    PrintStructured(MessageJson(*explained), args.output, cox->out());
  } else {
    const std::string& text = explained->text();
    cox->out() << text << (text.empty() || text.back() != '\n' ? "\n" : "");
  }
  return kOk;
}

}  // namespace

void AddExplain(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<ExplainArgs>();
  Verb(app, "explain", "Say why a job is in its state, in particular why it does not run")
      .Job(&args->job)
      .Output(&args->output, {"table", "json", "yaml"})
      .Run(cox, [cox, args] { return RunExplain(cox, *args); });
}

}  // namespace coxswain::cli
