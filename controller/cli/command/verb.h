// One subcommand as its file of verbs/ declares it. CLI11 stays behind this header: parsing it
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

// One function per verb, defined in a file of verbs/. It adds a subcommand whose callback sets
// cox->action.
void AddSubmit(CLI::App* app, Cox* cox);
void AddValidate(CLI::App* app, Cox* cox);
void AddPlan(CLI::App* app, Cox* cox);
void AddGet(CLI::App* app, Cox* cox);
void AddDescribe(CLI::App* app, Cox* cox);
void AddLogs(CLI::App* app, Cox* cox);
void AddWatch(CLI::App* app, Cox* cox);
void AddEvents(CLI::App* app, Cox* cox);
void AddPlot(CLI::App* app, Cox* cox);
void AddCancel(CLI::App* app, Cox* cox);
void AddPause(CLI::App* app, Cox* cox);
void AddResume(CLI::App* app, Cox* cox);
void AddWorkers(CLI::App* app, Cox* cox);
void AddInspect(CLI::App* app, Cox* cox);
void AddStep(CLI::App* app, Cox* cox);
void AddExplain(CLI::App* app, Cox* cox);
void AddDownload(CLI::App* app, Cox* cox);
void AddExport(CLI::App* app, Cox* cox);
void AddDelete(CLI::App* app, Cox* cox);
void AddDump(CLI::App* app, Cox* cox);
void AddData(CLI::App* app, Cox* cox);
void AddTemplate(CLI::App* app, Cox* cox);
void AddModels(CLI::App* app, Cox* cox);
void AddPull(CLI::App* app, Cox* cox);
void AddPush(CLI::App* app, Cox* cox);
void AddUpload(CLI::App* app, Cox* cox);
void AddTokenize(CLI::App* app, Cox* cox);
void AddImport(CLI::App* app, Cox* cox);
void AddHelp(CLI::App* app, Cox* cox);
void AddHealth(CLI::App* app, Cox* cox);
void AddGenerate(CLI::App* app, Cox* cox);
void AddUp(CLI::App* app, Cox* cox);
void AddDown(CLI::App* app, Cox* cox);
void AddTrain(CLI::App* app, Cox* cox);
void AddToken(CLI::App* app, Cox* cox);
void AddConfig(CLI::App* app, Cox* cox);
void AddCompletion(CLI::App* app, Cox* cox);
void AddVersion(CLI::App* app, Cox* cox);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_COMMAND_VERB_H_
