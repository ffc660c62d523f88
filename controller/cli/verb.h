// One subcommand as its verb_<name>.cc declares it. CLI11 stays behind this header: parsing it
// costs five seconds per file.
#ifndef COXSWAIN_CONTROLLER_CLI_VERB_H_
#define COXSWAIN_CONTROLLER_CLI_VERB_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "controller/cli/cox.h"

namespace CLI {
class App;
}

namespace coxswain::cli {

// Option names are CLI11's: "-n,--steps". Targets must outlive the parse; they hold the default
// before.
class Verb {
 public:
  Verb(CLI::App* parent, const char* name, const char* doc);

  Verb& Job(std::string* job);                 // the required positional argument "job"
  Verb& Jobs(std::vector<std::string>* jobs);  // the same, one or several
  // -o. Where "table" is a format and "wide" is not, "wide" is read as "table".
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
  Verb& Texts(const char* names, std::vector<std::string>* values, const char* doc);  // one a flag
  Verb& Arguments(const char* name, std::vector<std::string>* values,
                  const char* doc);  // positional
  Verb& Integer(const char* names, int64_t* value, int64_t min, int64_t max, const char* doc);
  Verb& Number(const char* names, double* value, const char* doc);  // >= 0
  // Tells after the parse whether an option ("--server") was given. Does not outlive the verb's
  // tree.
  std::function<bool(const char* option)> Given() const;
  Verb& Footer(const char* text);
  Verb& RequireSubverb();

  // What cox does when this verb was typed, without one of its subverbs; returns the exit code.
  void Run(Cox* cox, std::function<int()> action);

  CLI::App* app() { return app_; }

 private:
  CLI::App* app_;
};

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_VERB_H_
