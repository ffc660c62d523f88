#include "controller/cli/command/verb.h"

#include <algorithm>
#include <utility>

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace coxswain::cli {
namespace {

void OneOf(CLI::Option* option, std::initializer_list<std::string> words) {
  option->check(CLI::IsMember(std::vector<std::string>(words)));
}

bool Has(std::initializer_list<std::string> words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

Verb::Verb(CLI::App* parent, const char* name, const char* doc)
    : app_(parent->add_subcommand(name, doc)) {}

Verb& Verb::Job(std::string* job) {
  return RequiredText("job", job, "Id, unique id prefix or name");
}

Verb& Verb::Jobs(std::vector<std::string>* jobs) {
  app_->add_option("jobs", *jobs, "Ids, unique id prefixes or names")->required();
  return *this;
}

Verb& Verb::Output(std::string* format, std::initializer_list<std::string> formats,
                   const char* doc) {
  const std::string text =
      absl::StrCat(absl::StrJoin(formats, ", "), *doc == '\0' ? "" : ": ", doc);
  CLI::Option* option = app_->add_option("-o,--output", *format, text);
  if (Has(formats, "table") && !Has(formats, "wide")) {
    option->transform([](const std::string& word) { return word == "wide" ? "table" : word; });
  }
  OneOf(option, formats);
  return *this;
}

Verb& Verb::Progress(std::string* mode) {
  return Word("--progress", mode, {"auto", "plain", "none"},
              "auto (a bar on a TTY), plain or none");
}

Verb& Verb::Flag(const char* names, bool* value, const char* doc) {
  app_->add_flag(names, *value, doc);
  return *this;
}

Verb& Verb::Text(const char* names, std::string* value, const char* doc) {
  app_->add_option(names, *value, doc);
  return *this;
}

Verb& Verb::RequiredText(const char* names, std::string* value, const char* doc) {
  app_->add_option(names, *value, doc)->required();
  return *this;
}

Verb& Verb::Word(const char* names, std::string* value, std::initializer_list<std::string> words,
                 const char* doc) {
  OneOf(app_->add_option(names, *value, doc), words);
  return *this;
}

Verb& Verb::RequiredWord(const char* name, std::string* value,
                         std::initializer_list<std::string> words, const char* doc) {
  CLI::Option* option = app_->add_option(name, *value, doc)->required();
  OneOf(option, words);
  return *this;
}

Verb& Verb::Texts(const char* names, std::vector<std::string>* values, const char* doc) {
  app_->add_option(names, *values, doc)->expected(1)->allow_extra_args(false)->take_all();
  return *this;
}

Verb& Verb::Arguments(const char* name, std::vector<std::string>* values, const char* doc) {
  app_->add_option(name, *values, doc);
  return *this;
}

Verb& Verb::Integer(const char* names, int64_t* value, int64_t min, int64_t max, const char* doc) {
  app_->add_option(names, *value, doc)->check(CLI::Range(min, max));
  return *this;
}

Verb& Verb::Number(const char* names, double* value, const char* doc) {
  app_->add_option(names, *value, doc)->check(CLI::NonNegativeNumber);
  return *this;
}

std::function<bool(const char* option)> Verb::Given() const {
  return [app = app_](const char* option) { return app->count(option) > 0; };
}

Verb& Verb::Footer(const char* text) {
  app_->footer(text);
  return *this;
}

Verb& Verb::RequireSubverb() {
  app_->require_subcommand(1);
  return *this;
}

void Verb::Run(Cox* cox, std::function<int()> action) {
  app_->callback([cox, app = app_, action = std::move(action)] {
    if (app->get_subcommands().empty()) cox->action = action;
  });
}

}  // namespace coxswain::cli
