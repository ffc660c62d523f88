#include "controller/cli/app.h"

#include <CLI/CLI.hpp>

#include "controller/cli/command/verb.h"
#include "controller/cli/connect/connection.h"
#include "controller/cli/mistyped.h"
#include "controller/cli/text/clean_stream.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/help_text.h"

namespace coxswain::cli {
namespace {

// The verbs in the order of the help.
struct VerbGroup {
  const char* name;
  std::vector<void (*)(CLI::App* app, Cox* cox)> verbs;
};

const std::vector<VerbGroup>& Groups() {
  static const auto* groups = new std::vector<VerbGroup>{
      {kFirstVerbs,
       {AddTrain, AddPlan, AddValidate, AddGenerate, AddUp, AddDown, AddSubmit, AddGet, AddDescribe,
        AddWatch, AddCancel, AddDownload}},
      {"jobs",
       {AddLogs, AddEvents, AddPlot, AddExplain, AddInspect, AddPause, AddResume, AddStep,
        AddDelete, AddDump, AddExport}},
      {"data, models",
       {AddPull, AddPush, AddUpload, AddData, AddTemplate, AddTokenize, AddModels, AddImport}},
      {"service", {AddWorkers, AddToken, AddHealth}},
      {"cox itself", {AddConfig, AddHelp, AddVersion, AddCompletion}},
  };
  return *groups;
}

}  // namespace

void BuildApp(CLI::App* app, Cox* cox) {
  app->require_subcommand(1);
  app->fallthrough();
  app->add_option("--server", cox->flags.server,
                  "Controller as host:port (COXSWAIN_SERVER; default: the context, then `cox up`, "
                  "then 127.0.0.1:7070)");
  app->add_option("--context", cox->flags.context,
                  "Context of cox config to use (COXSWAIN_CONTEXT; default: the current one)");
  app->add_option("--tls-ca", cox->flags.tls.ca,
                  "PEM file of the CA that signed the controller's certificate (COXSWAIN_TLS_CA)");
  app->add_option("--tls-cert", cox->flags.tls.cert,
                  "PEM file of this client's certificate (COXSWAIN_TLS_CERT)");
  app->add_option("--tls-key", cox->flags.tls.key,
                  "PEM file of this client's key (COXSWAIN_TLS_KEY)");
  app->add_option("--token-file", cox->flags.token_file,
                  "File with the caller's token (COXSWAIN_TOKEN_FILE, or the token in "
                  "COXSWAIN_TOKEN; default: the context's, then what a controller of this user on "
                  "loopback left)");
  app->add_flag("--insecure", cox->flags.insecure,
                "Use plaintext on loopback even if certificates are given");
  app->footer(
      "Exit codes: 0 ok, 1 failed, 2 usage or invalid job, 3 job cancelled, 4 not found,\n"
      "            5 controller or Hub unreachable or refuses the caller, 124 timeout, 130 "
      "interrupted");
  app->set_version_flag("-V,--version", ClientVersion(),
                        "Version of cox; cox version shows the controller's too");
  for (const VerbGroup& group : Groups()) {
    const size_t before = VerbsOf(*app).size();
    for (const auto add : group.verbs) add(app, cox);
    const std::vector<CLI::App*> verbs = app->get_subcommands([](CLI::App*) { return true; });
    for (size_t i = before; i < verbs.size(); ++i) verbs[i]->group(group.name);
  }
  ShowVerbsByGroup(app);
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
    // Help and version go to stdout with code 0; every mistake is code 2, whatever CLI11 numbers
    // it.
    const bool mistake = error.get_exit_code() != 0;
    const std::string mistyped = mistake ? Mistyped(app) : "";
    if (!mistyped.empty()) return cox.Fail(absl::InvalidArgumentError(mistyped));
    app.exit(error, cox.out(), cox.err());
    return mistake ? kUsage : kOk;
  }
  return cox.action();
}

}  // namespace coxswain::cli
