// Did-you-mean of verbs and options.
#ifndef COXSWAIN_CONTROLLER_CLI_MISTYPED_H_
#define COXSWAIN_CONTROLLER_CLI_MISTYPED_H_

#include <string>

namespace CLI {
class App;
}

namespace coxswain::cli {

// "cox has no verb 'sumbit'; did you mean 'submit'?". Without a similar verb it says how to list
// them.
std::string NoSuchVerb(const CLI::App& app, const std::string& word);

// One line about the command line that `app` just refused for a missing verb, an unknown verb or an
// unknown option. Empty for any other error.
std::string Mistyped(const CLI::App& app);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_MISTYPED_H_
