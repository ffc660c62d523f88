#include <memory>

#include "controller/cli/command/verb.h"
#include "controller/cli/command/verbs.h"
#include "controller/cli/jobs/job_change.h"

namespace coxswain::cli {

void AddCancel(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<ChangeArgs>();
  auto checkpoint = std::make_shared<bool>(false);
  Verb verb(app, "cancel", "Cancel jobs at the next step boundary");
  AddChangeArgs(&verb, args.get());
  verb.Flag("--checkpoint", checkpoint.get(),
            "Save a checkpoint of each job where it stops; a later job continues from it with "
            "checkpoint.resume");
  verb.Run(cox, [cox, args, checkpoint] {
    return ChangeJobs(
        cox, *args, v1::JOB_STATE_CANCELLED,
        [cox, checkpoint](const std::string& id) { return cox->Server().Cancel(id, *checkpoint); });
  });
}

}  // namespace coxswain::cli
