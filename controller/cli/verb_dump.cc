#include <memory>

#include "controller/cli/exit_code.h"
#include "controller/cli/verb.h"
#include "controller/cli/verbs.h"

namespace coxswain::cli {

void AddDump(CLI::App* app, Cox* cox) {
  auto job = std::make_shared<std::string>();
  Verb(app, "dump", "The controller's state of a job as JSON, for bug reports")
      .Job(job.get())
      .Run(cox, [cox, job]() -> int {
        const absl::StatusOr<v1::DumpResponse> dump = cox->Server().Dump(*job);
        if (!dump.ok()) return cox->Fail(dump.status());
        cox->out() << dump->json() << "\n";
        return kOk;
      });
}

}  // namespace coxswain::cli
