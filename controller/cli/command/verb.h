// One subcommand as its verb_<name>.cc declares it. CLI11 stays behind this header: parsing it
// costs five seconds per file.
#ifndef COXSWAIN_CONTROLLER_CLI_COMMAND_VERB_H_
#define COXSWAIN_CONTROLLER_CLI_COMMAND_VERB_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "controller/cli/command/cox.h"

namespace CLI {
class App;
}

namespace coxswain::cli {

// Option names have CLI11's form: "-n,--steps". Targets must outlive the parse. Before it they hold
// the defaults.
class Verb {
 public:
  Verb(CLI::App* parent, const char* name, const char* doc);

  Verb& Job(std::string* job);                 // the required positional argument "job"
  Verb& Jobs(std::vector<std::string>* jobs);  // one or more jobs
  // -o. With "table" but without "wide" among the formats, "wide" is read as "table".
  Verb& Output(std::string* format, std::initializer_list<std::string> formats,
               const char* doc = "");
  Verb& Progress(std::string* mode);  // --progress=auto|plain|none
  Verb& Flag(const char* names, bool* value, const char* doc);
  Verb& Text(const char* names, std::string* value, const char* doc);
  Verb& RequiredText(const char* names, std::string* value, const char* doc);
  Verb& Word(const char* names, std::string* value, std::initializer_list<std::string> words,
             const char* doc);
  Verb& RequiredWord(const char* name, std::string* value, std::initializer_list<std::string> words,
                     const char* doc);
  Verb& Texts(const char* names, std::vector<std::string>* values,
              const char* doc);  // a value per flag
  Verb& Arguments(const char* name, std::vector<std::string>* values,
                  const char* doc);  // positional
  Verb& Integer(const char* names, int64_t* value, int64_t min, int64_t max, const char* doc);
  Verb& Number(const char* names, double* value, const char* doc);  // >= 0
  // A function that says after the parse whether an option ("--server") was given. The verb's tree
  // must outlive it.
  std::function<bool(const char* option)> Given() const;
  Verb& Footer(const char* text);
  Verb& RequireSubverb();

  // `action` runs when this verb was typed without one of its subverbs. It returns the exit code.
  void Run(Cox* cox, std::function<int()> action);

  CLI::App* app() { return app_; }

 private:
  CLI::App* app_;
};

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_COMMAND_VERB_H_
