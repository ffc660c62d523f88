#include "controller/cli/mistyped.h"

#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "common/config/config_error.h"
#include "common/outside_text.h"
#include "controller/cli/text/help_text.h"

namespace coxswain::cli {
namespace {

std::string DidYouMean(const std::string& word, const std::vector<std::string>& candidates,
                       const std::string& otherwise) {
  const std::vector<std::string_view> views(candidates.begin(), candidates.end());
  const std::string_view near = config::Suggest(word, views);
  return near.empty() ? otherwise : fmt::format("; did you mean '{}'?", near);
}

std::vector<std::string> Names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : VerbsOf(app)) names.push_back(verb->get_name());
  return names;
}

// Long ones, of the verb and of those above it.
std::vector<std::string> Options(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::App* app = &verb; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  return names;
}

std::string NoVerb(const CLI::App& app) {
  if (app.get_parent() == nullptr) return "no verb is given; cox --help lists them";
  return fmt::format("{} needs one of {}", FullName(app), fmt::join(Names(app), ", "));
}

}  // namespace

std::string NoSuchVerb(const CLI::App& app, const std::string& word) {
  const std::string otherwise = app.get_parent() == nullptr
                                    ? std::string("; cox --help lists the verbs")
                                    : fmt::format("; there are {}", fmt::join(Names(app), ", "));
  return fmt::format("{} has no verb '{}'{}", FullName(app), OneLine(word),
                     DidYouMean(word, Names(app), otherwise));
}

std::string Mistyped(const CLI::App& app) {
  const CLI::App* verb = &app;
  while (!verb->get_subcommands().empty()) verb = verb->get_subcommands().front();
  const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
  const bool needs_verb = verb->get_require_subcommand_min() > 0;
  if (unknown.empty()) return needs_verb ? NoVerb(*verb) : "";
  const std::string& word = unknown.front();
  if (word.starts_with("--") && word.size() > 2) {
    const std::string name = word.substr(0, word.find('='));
    return fmt::format(
        "{} has no option '{}'{}", FullName(*verb), OneLine(name),
        DidYouMean(name, Options(*verb), fmt::format("; see {} --help", FullName(*verb))));
  }
  return needs_verb && !word.starts_with("-") ? NoSuchVerb(*verb, word) : "";
}

}  // namespace coxswain::cli
