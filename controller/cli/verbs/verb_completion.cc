#include <memory>

#include "controller/cli/command/verb.h"
#include "controller/cli/command/verbs.h"
#include "controller/cli/completion.h"
#include "controller/cli/text/exit_code.h"

namespace coxswain::cli {

void AddCompletion(CLI::App* app, Cox* cox) {
  auto shell = std::make_shared<std::string>();
  Verb(app, "completion", "Print a completion script: source <(cox completion bash)")
      .RequiredWord("shell", shell.get(), {"bash", "zsh", "fish"}, "bash, zsh or fish")
      .Run(cox, [cox, app, shell]() -> int {
        cox->out() << CompletionScript(*app, *shell);
        return kOk;
      });
}

}  // namespace coxswain::cli
