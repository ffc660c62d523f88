#include <memory>
#include <string>

#include "common/net/health_check.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/command/verbs.h"
#include "controller/cli/text/exit_code.h"

namespace coxswain::cli {
namespace {

struct HealthArgs {
  std::string address;
  std::string service;
  int64_t timeout_ms = 3000;
};

int RunHealth(Cox* cox, const HealthArgs& args) {
  const auto serving =
      CheckHealth(args.address, args.service, std::chrono::milliseconds(args.timeout_ms));
  if (!serving.ok()) return cox->Fail(serving.status());
  cox->out() << (*serving ? "SERVING" : "NOT_SERVING") << "\n" << std::flush;
  return *serving ? kOk : kFailed;
}

}  // namespace

void AddHealth(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<HealthArgs>();
  Verb(app, "health", "Ask a --health address of controller or supervisor, as a probe does")
      .RequiredText("address", &args->address, "host:port")
      .Text("--service", &args->service,
            "coxswain.v1.Jobs, coxswain.v1.Supervisor or coxswain.v1.Worker (default: the process)")
      .Integer("--timeout-ms", &args->timeout_ms, 1, 600000, "Of the whole call")
      .Run(cox, [cox, args] { return RunHealth(cox, *args); });
}

}  // namespace coxswain::cli
