#include <memory>

#include "controller/cli/job_change.h"
#include "controller/cli/verb.h"
#include "controller/cli/verbs.h"

namespace coxswain::cli {

void AddCancel(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<ChangeArgs>();
  Verb verb(app, "cancel", "Cancel a job at the next step boundary");
  AddChangeArgs(&verb, args.get());
  verb.Run(cox, [cox, args] {
    return ChangeJob(cox, *args, v1::JOB_STATE_CANCELLED,
                     [cox](const std::string& id) { return cox->Server().Cancel(id); });
  });
}

}  // namespace coxswain::cli
