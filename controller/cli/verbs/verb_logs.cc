#include <memory>

#include <nlohmann/json.hpp>

#include "controller/cli/command/verb.h"
#include "controller/cli/command/verbs.h"
#include "controller/cli/machine/interrupt.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/log_text.h"

namespace coxswain::cli {
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
