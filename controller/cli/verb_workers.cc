#include <memory>

#include "common/message_json.h"
#include "controller/cli/exit_code.h"
#include "controller/cli/job_text.h"
#include "controller/cli/output.h"
#include "controller/cli/verb.h"
#include "controller/cli/verbs.h"

namespace coxswain::cli {
namespace {

int RunWorkers(Cox* cox, const std::string& output) {
  const absl::StatusOr<v1::ListWorkersResponse> workers = cox->Server().ListWorkers();
  if (!workers.ok()) return cox->Fail(workers.status());
  if (IsStructured(output)) {
    PrintStructured(MessageJson(*workers), output, cox->out());
  } else if (workers->workers().empty()) {
    cox->err() << "no workers registered at " << cox->Server().address() << "\n";
  } else {
    cox->out() << WorkersTable(*workers, output == "wide");
  }
  return kOk;
}

}  // namespace

void AddWorkers(CLI::App* app, Cox* cox) {
  auto output = std::make_shared<std::string>("table");
  Verb(app, "workers", "List workers")
      .Output(output.get(), {"table", "wide", "json", "yaml"})
      .Run(cox, [cox, output] { return RunWorkers(cox, *output); });
}

}  // namespace coxswain::cli
