#include <memory>

#include "controller/cli/command/verb.h"
#include "controller/cli/command/verbs.h"
#include "controller/cli/mistyped.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/help_text.h"

namespace coxswain::cli {

void AddHelp(CLI::App* app, Cox* cox) {
  struct Args {
    std::vector<std::string> verb;
    bool all = false;
  };
  auto args = std::make_shared<Args>();
  Verb(app, "help", "Print the help of a verb: cox help submit, cox help data check")
      .Arguments("verb", &args->verb, "Verb; without it the help of cox itself")
      .Flag("-a,--all", &args->all, "List every verb with a line")
      .Run(cox, [app, cox, args]() -> int {
        if (args->all) {
          cox->out() << AllVerbs(*app);
          return kOk;
        }
        const FoundVerb found = FindVerb(*app, args->verb);
        if (found.words < args->verb.size()) {
          const std::string& word = args->verb[found.words];
          return cox->Fail(absl::InvalidArgumentError(NoSuchVerb(*found.verb, word)));
        }
        cox->out() << HelpOf(*found.verb);
        return kOk;
      });
}

}  // namespace coxswain::cli
