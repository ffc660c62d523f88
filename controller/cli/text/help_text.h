// How `cox --help` and `cox help` list the verbs.
#ifndef COXSWAIN_CONTROLLER_CLI_TEXT_HELP_TEXT_H_
#define COXSWAIN_CONTROLLER_CLI_TEXT_HELP_TEXT_H_

#include <cstddef>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace coxswain::cli {

// The group of at most 12 verbs that `cox --help` shows with a line each. For other groups it shows
// the names of the verbs only.
inline constexpr const char* kFirstVerbs = "First verbs";

// Makes the help of `app` show its verbs in this way.
void ShowVerbsByGroup(CLI::App* app);

// Every group with its verbs, one line per verb.
std::string AllVerbs(const CLI::App& app);

// The verbs of `app` in order; of a verb ("data"), its sub-verbs (check, inspect, preview).
std::vector<const CLI::App*> VerbsOf(const CLI::App& app);

// The deepest verb that the first of `words` name ("data", "check"), and the number of words that
// name it.
struct FoundVerb {
  const CLI::App* verb;  // the app itself when the first word names no verb
  size_t words = 0;
};
FoundVerb FindVerb(const CLI::App& app, const std::vector<std::string>& words);

// The text that `--help` prints for the verb.
std::string HelpOf(const CLI::App& verb);

// "cox data check".
std::string FullName(const CLI::App& verb);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_TEXT_HELP_TEXT_H_
