// Shell completion, generated from the argument tree.
#ifndef COXSWAIN_CONTROLLER_CLI_COMPLETION_H_
#define COXSWAIN_CONTROLLER_CLI_COMPLETION_H_

#include <string>

namespace CLI {
class App;
}

namespace coxswain::cli {

// The script for "bash", "zsh" or "fish". It completes verbs, sub-verbs and options. Where a verb
// takes a job, it completes the ids that `cox get -o name` prints.
std::string CompletionScript(const CLI::App& app, const std::string& shell);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_COMPLETION_H_
