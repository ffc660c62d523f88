#include "controller/cli/text/help_text.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

namespace coxswain::cli {
namespace {

constexpr int kNameColumns = 14;

std::vector<std::string> Groups(const CLI::App& app) {
  std::vector<std::string> groups;
  for (const CLI::App* verb : VerbsOf(app)) {
    const bool known = std::find(groups.begin(), groups.end(), verb->get_group()) != groups.end();
    if (!known) groups.push_back(verb->get_group());
  }
  return groups;
}

std::string Lines(const CLI::App& app, const std::string& group) {
  std::string text = fmt::format("\n{}:\n", group);
  for (const CLI::App* verb : VerbsOf(app)) {
    if (verb->get_group() != group) continue;
    text += fmt::format("  {:<{}}{}\n", verb->get_name(), kNameColumns, verb->get_description());
  }
  return text;
}

std::string Names(const CLI::App& app, const std::string& group) {
  std::vector<std::string> names;
  for (const CLI::App* verb : VerbsOf(app)) {
    if (verb->get_group() == group) names.push_back(verb->get_name());
  }
  return fmt::format("  {:<{}}{}\n", group, kNameColumns, fmt::join(names, ", "));
}

class ByGroup : public CLI::Formatter {
 public:
  std::string make_subcommands(const CLI::App* app, CLI::AppFormatMode /*mode*/) const override {
    std::string text = Lines(*app, kFirstVerbs);
    text += "\nMore verbs (cox help VERB tells of one, cox help --all of each):\n";
    for (const std::string& group : Groups(*app)) {
      if (group != kFirstVerbs) text += Names(*app, group);
    }
    return text;
  }
};

}  // namespace

void ShowVerbsByGroup(CLI::App* app) { app->formatter(std::make_shared<ByGroup>()); }

std::string AllVerbs(const CLI::App& app) {
  std::string text;
  for (const std::string& group : Groups(app)) text += Lines(app, group);
  return text.substr(1);
}

std::vector<const CLI::App*> VerbsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* verb) { return !verb->get_name().empty(); });
}

FoundVerb FindVerb(const CLI::App& app, const std::vector<std::string>& words) {
  FoundVerb found{.verb = &app};
  for (const std::string& word : words) {
    const std::vector<const CLI::App*> verbs = VerbsOf(*found.verb);
    const auto verb = std::find_if(verbs.begin(), verbs.end(), [&](const CLI::App* candidate) {
      return candidate->get_name() == word;
    });
    if (verb == verbs.end()) break;
    found = {.verb = *verb, .words = found.words + 1};
  }
  return found;
}

std::string HelpOf(const CLI::App& verb) {
  return verb.get_formatter()->make_help(&verb, FullName(verb), CLI::AppFormatMode::Normal);
}

std::string FullName(const CLI::App& verb) {
  const CLI::App* above = verb.get_parent();
  return above == nullptr ? verb.get_name() : FullName(*above) + " " + verb.get_name();
}

}  // namespace coxswain::cli
