// Which workers there are, and whether a process serves.
#include <memory>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/net/health_check.h"
#include "common/net/message_json.h"
#include "common/outside_text.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/job_text.h"
#include "controller/cli/text/output.h"

namespace coxswain::cli {
namespace {

struct CordonArgs {
  std::string target;
  std::string reason;
};

int RunWorkers(Cox* cox, const std::string& output) {
  const absl::StatusOr<v1::ListWorkersResponse> workers = cox->Server().ListWorkers();
  if (!workers.ok()) return cox->Fail(workers.status());
  if (IsStructured(output)) {
    PrintStructured(MessageJson(*workers), output, cox->out());
    return kOk;
  }
  if (workers->workers().empty()) {
    cox->err() << "no workers registered at " << cox->Server().address() << "\n";
  } else {
    cox->out() << WorkersTable(*workers, output == "wide");
  }
  cox->out() << CordonLines(*workers, cox->now_unix_ms());
  return kOk;
}

// "cordoned h1: h1/0, h1/1 get no new job"
template <typename Response>
int Tell(Cox* cox, const absl::StatusOr<Response>& response, const char* done,
         const std::string& target, const char* meaning) {
  if (!response.ok()) return cox->Fail(response.status());
  const auto& workers = response->workers();
  cox->out() << fmt::format("{} {}: {} {}\n", done, target,
                            workers.empty() ? "its workers, of which none lives now,"
                                            : OneLine(fmt::format("{}", fmt::join(workers, ", "))),
                            meaning);
  return kOk;
}

void AddCordon(CLI::App* workers, Cox* cox) {
  auto args = std::make_shared<CordonArgs>();
  Verb(workers, "cordon",
       "Give a worker, or all workers of a host, no new jobs; running jobs continue")
      .RequiredText("target", &args->target, "Id of a worker (HOST/SLOT), or a host")
      .Text("--reason", &args->reason, "Reason, for other users")
      .Run(cox, [cox, args] {
        return Tell(cox, cox->Server().Cordon(args->target, args->reason), "cordoned", args->target,
                    "get no new job");
      });
}

void AddUncordon(CLI::App* workers, Cox* cox) {
  auto args = std::make_shared<CordonArgs>();
  Verb(workers, "uncordon", "Give a worker, or all workers of a host, jobs again")
      .RequiredText("target", &args->target, "Id of a worker (HOST/SLOT), or a host")
      .Run(cox, [cox, args] {
        return Tell(cox, cox->Server().Uncordon(args->target), "uncordoned", args->target,
                    "may have jobs again");
      });
}

}  // namespace

void AddWorkers(CLI::App* app, Cox* cox) {
  auto output = std::make_shared<std::string>("table");
  Verb verb(app, "workers", "List workers, or cordon them");
  verb.Output(output.get(), {"table", "wide", "json", "yaml"}).Run(cox, [cox, output] {
    return RunWorkers(cox, *output);
  });
  AddCordon(verb.app(), cox);
  AddUncordon(verb.app(), cox);
}

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
