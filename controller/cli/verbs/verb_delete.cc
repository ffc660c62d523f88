#include <algorithm>
#include <memory>

#include "controller/cli/command/verb.h"
#include "controller/cli/command/verbs.h"
#include "controller/cli/jobs/job_change.h"
#include "controller/cli/text/exit_code.h"

namespace coxswain::cli {

void AddDelete(CLI::App* app, Cox* cox) {
  auto jobs = std::make_shared<std::vector<std::string>>();
  Verb(app, "delete", "Remove the records of ended jobs; their files stay")
      .Jobs(jobs.get())
      .Footer("Every job is tried; the exit code is the highest of theirs.")
      .Run(cox, [cox, jobs] {
        int code = kOk;
        for (const std::string& job : *jobs) {
          const absl::Status status = cox->Server().Delete(job);
          if (status.ok()) {
            cox->out() << "job " << job << " deleted\n";
          } else {
            code = std::max(code, cox->Fail(OfJob(*jobs, job, status)));
          }
        }
        return code;
      });
}

}  // namespace coxswain::cli
