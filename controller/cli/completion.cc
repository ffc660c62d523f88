#include "controller/cli/completion.h"

#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "controller/cli/text/help_text.h"

namespace coxswain::cli {
namespace {

struct Flag {
  std::string name;  // with its hyphens
  std::string doc;
};

struct Verb {
  std::string name;
  std::string doc;
  std::vector<std::string> subverbs;
  std::vector<Flag> flags;
  bool takes_job = false;
};

void AddFlags(const CLI::App& app, std::vector<Flag>* flags) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames())
      flags->push_back({"--" + name, option->get_description()});
    for (const std::string& name : option->get_snames())
      flags->push_back({"-" + name, option->get_description()});
  }
}

bool TakesJob(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional() &&
        (option->get_name(true) == "job" || option->get_name(true) == "jobs"))
      return true;
  }
  return false;
}

std::vector<Verb> Verbs(const CLI::App& app) {
  std::vector<Verb> verbs;
  for (const CLI::App* sub : VerbsOf(app)) {
    Verb verb{.name = sub->get_name(),
              .doc = sub->get_description(),
              .subverbs = {},
              .flags = {},
              .takes_job = TakesJob(*sub)};
    AddFlags(*sub, &verb.flags);
    for (const CLI::App* inner : VerbsOf(*sub)) {
      verb.subverbs.push_back(inner->get_name());
      AddFlags(*inner, &verb.flags);
    }
    AddFlags(app, &verb.flags);
    verbs.push_back(std::move(verb));
  }
  return verbs;
}

// Single-quoted for the shell.
std::string Quote(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string Words(const Verb& verb) {
  std::vector<std::string> words = verb.subverbs;
  for (const Flag& flag : verb.flags) words.push_back(flag.name);
  return fmt::format("{}", fmt::join(words, " "));
}

std::string BashScript(const std::vector<Verb>& verbs) {
  std::string names;
  std::string cases;
  for (const Verb& verb : verbs) {
    names += (names.empty() ? "" : " ") + verb.name;
    cases += fmt::format("    {}) words=\"{}{}\" ;;\n", verb.name, Words(verb),
                         verb.takes_job ? " $(cox get -o name 2>/dev/null)" : "");
  }
  return fmt::format(R"(# bash completion of cox: source <(cox completion bash)
_cox() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} verb="" words="" i
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [[ ${{COMP_WORDS[i]}} != -* ]]; then verb=${{COMP_WORDS[i]}}; break; fi
  done
  case "$verb" in
    "") words="{} --help --server" ;;
{}  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o default -F _cox cox
)",
                     names, cases);
}

std::string ZshScript(const std::vector<Verb>& verbs) {
  std::string described;
  std::string cases;
  for (const Verb& verb : verbs) {
    std::string doc = verb.doc;
    for (size_t at = 0; (at = doc.find(':', at)) != std::string::npos; at += 2)
      doc.insert(at, "\\");
    described += fmt::format("    {}\n", Quote(fmt::format("{}:{}", verb.name, doc)));
    cases += fmt::format("    {}) compadd -- {}{} ;;\n", verb.name, Words(verb),
                         verb.takes_job ? " ${(f)\"$(cox get -o name 2>/dev/null)\"}" : "");
  }
  return fmt::format(R"(#compdef cox
# zsh completion of cox: source <(cox completion zsh)
_cox() {{
  local -a verbs
  verbs=(
{}  )
  if (( CURRENT == 2 )); then
    _describe verb verbs
    return
  fi
  case ${{words[2]}} in
{}  esac
  _files
}}
compdef _cox cox
)",
                     described, cases);
}

std::string FishScript(const std::vector<Verb>& verbs) {
  std::string script = "# fish completion of cox: cox completion fish | source\n";
  for (const Verb& verb : verbs) {
    script += fmt::format("complete -c cox -n __fish_use_subcommand -f -a {} -d {}\n", verb.name,
                          Quote(verb.doc));
    const std::string seen =
        fmt::format("complete -c cox -n '__fish_seen_subcommand_from {}'", verb.name);
    for (const std::string& inner : verb.subverbs)
      script += fmt::format("{} -f -a {}\n", seen, inner);
    for (const Flag& flag : verb.flags) {
      const bool is_long = flag.name.compare(0, 2, "--") == 0;
      script += fmt::format("{} {} {} -d {}\n", seen, is_long ? "-l" : "-s",
                            flag.name.substr(is_long ? 2 : 1), Quote(flag.doc));
    }
    if (verb.takes_job) script += fmt::format("{} -f -a '(cox get -o name 2>/dev/null)'\n", seen);
  }
  return script;
}

}  // namespace

std::string CompletionScript(const CLI::App& app, const std::string& shell) {
  const std::vector<Verb> verbs = Verbs(app);
  if (shell == "zsh") return ZshScript(verbs);
  if (shell == "fish") return FishScript(verbs);
  return BashScript(verbs);
}

}  // namespace coxswain::cli
