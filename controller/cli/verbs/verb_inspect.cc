#include <algorithm>
#include <memory>

#include "common/net/message_json.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/machine/interrupt.h"
#include "controller/cli/text/clean_stream.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/job_text.h"
#include "controller/cli/text/output.h"

namespace coxswain::cli {
namespace {

constexpr double kMostSeconds = 24 * 3600;  // that a controller takes

struct InspectArgs {
  std::string job;
  bool watch = false;
  double interval_seconds = 1;
  std::string output = "table";
};

void Print(Cox* cox, const InspectArgs& args, const v1::InspectResponse& ranks) {
  if (args.output == "json" && args.watch) {
    cox->out() << MessageJson(ranks).dump() << "\n";
  } else if (IsStructured(args.output)) {
    if (args.watch) cox->out() << "---\n";
    PrintStructured(MessageJson(ranks), args.output, cox->out());
  } else {
    if (args.watch && cox->terminal.out_tty) cox->out() << Draw::kClearScreen;
    cox->out() << RanksTable(ranks, args.output == "wide");
    if (args.watch && !cox->terminal.out_tty) cox->out() << "\n";
  }
  cox->out() << std::flush;
}

int RunInspect(Cox* cox, const InspectArgs& args) {
  v1::InspectRequest request;
  request.set_job(args.job);
  const double interval_seconds = std::min(std::max(0.05, args.interval_seconds), kMostSeconds);
  request.set_interval_ms(args.watch ? static_cast<int64_t>(interval_seconds * 1000) : 0);
  const absl::Status status = cox->Server().Inspect(request, [&](const v1::InspectResponse& ranks) {
    Print(cox, args, ranks);
    return args.watch;
  });
  if (InterruptSignal() != 0) return kInterrupted;
  return status.ok() ? static_cast<int>(kOk) : cox->Fail(status);
}

}  // namespace

void AddInspect(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<InspectArgs>();
  Verb(app, "inspect", "Show every rank of a job, as it is now")
      .Job(&args->job)
      .Flag("-w,--watch", &args->watch, "Refresh until interrupted")
      .Number("--interval", &args->interval_seconds, "Seconds between refreshes")
      .Output(&args->output, {"table", "wide", "json", "yaml"},
              "json with -w is one line per refresh")
      .Run(cox, [cox, args] { return RunInspect(cox, *args); });
}

}  // namespace coxswain::cli
