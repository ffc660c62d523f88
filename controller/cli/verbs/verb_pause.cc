#include <memory>

#include "controller/cli/command/verb.h"
#include "controller/cli/command/verbs.h"
#include "controller/cli/jobs/job_change.h"

namespace coxswain::cli {

void AddPause(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<ChangeArgs>();
  Verb verb(app, "pause", "Pause jobs at the next step boundary, with a checkpoint");
  AddChangeArgs(&verb, args.get());
  verb.Run(cox, [cox, args] {
    return ChangeJobs(cox, *args, v1::JOB_STATE_PAUSED,
                      [cox](const std::string& id) { return cox->Server().Pause(id); });
  });
}

}  // namespace coxswain::cli
