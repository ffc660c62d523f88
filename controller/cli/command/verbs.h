// One function per verb, defined in verb_<name>.cc. It adds a subcommand whose callback sets
// cox->action.
#ifndef COXSWAIN_CONTROLLER_CLI_COMMAND_VERBS_H_
#define COXSWAIN_CONTROLLER_CLI_COMMAND_VERBS_H_

#include "controller/cli/command/cox.h"

namespace CLI {
class App;
}

namespace coxswain::cli {

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

#endif  // COXSWAIN_CONTROLLER_CLI_COMMAND_VERBS_H_
