// What `cox --help` and `cox help` say of the verbs.
#ifndef COXSWAIN_CONTROLLER_CLI_HELP_TEXT_H_
#define COXSWAIN_CONTROLLER_CLI_HELP_TEXT_H_

#include <cstddef>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace coxswain::cli {

// The group of the verbs that `cox --help` shows with a line each, at most 12. Of the other groups
// it shows the names of the verbs.
inline constexpr const char* kFirstVerbs = "First verbs";

// From here on the help of `app` shows its verbs so.
void ShowVerbsByGroup(CLI::App* app);

// Every group with its verbs, each with its line.
std::string AllVerbs(const CLI::App& app);

// The verbs of `app` in their order, or the verbs of one of them ("data": check, inspect, preview).
std::vector<const CLI::App*> VerbsOf(const CLI::App& app);

// The verb that `words` name ("data", "check"), as far as they name one, and how many of them do.
struct FoundVerb {
  const CLI::App* verb;  // the app itself where the first word names none
  size_t words = 0;
};
FoundVerb FindVerb(const CLI::App& app, const std::vector<std::string>& words);

// What --help behind the verb prints.
std::string HelpOf(const CLI::App& verb);

// "cox data check".
std::string FullName(const CLI::App& verb);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_HELP_TEXT_H_
