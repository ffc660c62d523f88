// Did-you-mean of verbs and options.
#ifndef COXSWAIN_CONTROLLER_CLI_MISTYPED_H_
#define COXSWAIN_CONTROLLER_CLI_MISTYPED_H_

#include <string>

namespace CLI {
class App;
}

namespace coxswain::cli {

// "cox has no verb 'sumbit'; did you mean 'submit'?". Where none is near, how to list them.
std::string NoSuchVerb(const CLI::App& app, const std::string& word);

// What is wrong with the command line that `app` just refused, where that is a verb which is
// missing or unknown, or an unknown option; one line. Empty: something else.
std::string Mistyped(const CLI::App& app);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_MISTYPED_H_
