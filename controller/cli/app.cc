#include "controller/cli/app.h"

#include <CLI/CLI.hpp>

#include "controller/cli/clean_stream.h"
#include "controller/cli/exit_code.h"
#include "controller/cli/verbs.h"

namespace coxswain::cli {

void BuildApp(CLI::App* app, Cox* cox) {
  app->require_subcommand(1);
  app->fallthrough();
  app->add_option(
      "--server", cox->server_flag,
      "Controller as host:port (default: COXSWAIN_SERVER, then `cox up`, then 127.0.0.1:7070)");
  app->add_option("--tls-ca", cox->tls_ca,
                  "PEM file that the controller's certificate is checked with");
  app->add_option("--tls-cert", cox->tls_cert, "PEM file of this client's certificate");
  app->add_option("--tls-key", cox->tls_key, "PEM file of this client's key");
  app->add_option("--token-file", cox->token_file,
                  "File with the token that says who calls (default: COXSWAIN_TOKEN, then what a "
                  "controller of this user on loopback left)");
  app->add_flag("--insecure", cox->insecure,
                "Plaintext on loopback although certificates are given");
  app->footer(
      "Exit codes: 0 ok, 1 failed, 2 usage or invalid job, 3 job cancelled, 4 not found,\n"
      "            5 controller unreachable, 124 timeout, 130 interrupted");
  AddTrain(app, cox);
  AddGenerate(app, cox);
  AddUp(app, cox);
  AddDown(app, cox);
  AddSubmit(app, cox);
  AddValidate(app, cox);
  AddPlan(app, cox);
  AddGet(app, cox);
  AddDescribe(app, cox);
  AddWatch(app, cox);
  AddLogs(app, cox);
  AddEvents(app, cox);
  AddExplain(app, cox);
  AddPause(app, cox);
  AddResume(app, cox);
  AddStep(app, cox);
  AddCancel(app, cox);
  AddDelete(app, cox);
  AddInspect(app, cox);
  AddWorkers(app, cox);
  AddDownload(app, cox);
  AddExport(app, cox);
  AddDump(app, cox);
  AddData(app, cox);
  AddTemplate(app, cox);
  AddModels(app, cox);
  AddTokenize(app, cox);
  AddImport(app, cox);
  AddToken(app, cox);
  AddCompletion(app, cox);
  AddHealth(app, cox);
  AddVersion(app, cox);
}

int RunCox(const std::vector<std::string>& args, const Terminal& terminal,
           const std::function<int64_t()>& now_unix_ms) {
  // Invariant cli-7.
  CleanStream out(terminal.out), err(terminal.err);
  Cox cox;
  cox.terminal = terminal;
  cox.terminal.out = &out;
  cox.terminal.err = &err;
  cox.now_unix_ms = now_unix_ms;
  CLI::App app("Fine-tunes language models on a Coxswain controller and its workers.", "cox");
  BuildApp(&app, &cox);
  std::vector<std::string> reversed(args.rbegin(), args.rend());  // as CLI11 wants them
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    // Help is printed to stdout with code 0; every mistake is code 2, whatever CLI11 numbers it.
    return app.exit(error, cox.out(), cox.err()) == 0 ? kOk : kUsage;
  }
  return cox.action();
}

}  // namespace coxswain::cli
