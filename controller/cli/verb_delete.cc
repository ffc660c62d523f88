#include <memory>

#include "controller/cli/exit_code.h"
#include "controller/cli/verb.h"
#include "controller/cli/verbs.h"

namespace coxswain::cli {

void AddDelete(CLI::App* app, Cox* cox) {
  auto job = std::make_shared<std::string>();
  Verb(app, "delete", "Remove the records of an ended job; its files stay")
      .Job(job.get())
      .Run(cox, [cox, job]() -> int {
        const absl::Status status = cox->Server().Delete(*job);
        if (!status.ok()) return cox->Fail(status);
        cox->out() << "job " << *job << " deleted\n";
        return kOk;
      });
}

}  // namespace coxswain::cli
