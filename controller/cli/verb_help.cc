#include <memory>

#include "controller/cli/exit_code.h"
#include "controller/cli/help_text.h"
#include "controller/cli/mistyped.h"
#include "controller/cli/verb.h"
#include "controller/cli/verbs.h"

namespace coxswain::cli {

void AddHelp(CLI::App* app, Cox* cox) {
  struct Args {
    std::vector<std::string> verb;
    bool all = false;
  };
  auto args = std::make_shared<Args>();
  Verb(app, "help", "Help of a verb: cox help submit, cox help data check")
      .Arguments("verb", &args->verb, "The verb; without it what cox --help prints")
      .Flag("-a,--all", &args->all, "Every verb with a line")
      .Run(cox, [app, cox, args]() -> int {
        if (args->all) {
          cox->out() << AllVerbs(*app);
          return kOk;
        }
        const CLI::App* above = nullptr;
        if (const CLI::App* verb = FindVerb(*app, args->verb, &above)) {
          cox->out() << HelpOf(*verb);
          return kOk;
        }
        return cox->Fail(absl::InvalidArgumentError(NoSuchVerb(*above, args->verb.back())));
      });
}

}  // namespace coxswain::cli
