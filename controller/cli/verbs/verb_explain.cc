#include <memory>

#include "common/net/message_json.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/command/verbs.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/output.h"

namespace coxswain::cli {
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
