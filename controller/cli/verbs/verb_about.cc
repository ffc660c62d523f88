// Verbs that say what cox itself is.
#include <memory>

#include "common/identity.h"
#include "common/net/message_json.h"
#include "common/outside_text.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/completion.h"
#include "controller/cli/connect/connection.h"
#include "controller/cli/mistyped.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/help_text.h"
#include "controller/cli/text/output.h"

namespace coxswain::cli {

void AddHelp(CLI::App* app, Cox* cox) {
  struct Args {
    std::vector<std::string> verb;
    bool all = false;
  };
  auto args = std::make_shared<Args>();
  Verb(app, "help", "Print the help of a verb: cox help submit, cox help data check")
      .Arguments("verb", &args->verb, "Verb; without it the help of cox itself")
      .Flag("-a,--all", &args->all, "List every verb with a line")
      .Run(cox, [app, cox, args]() -> int {
        if (args->all) {
          cox->out() << AllVerbs(*app);
          return kOk;
        }
        const FoundVerb found = FindVerb(*app, args->verb);
        if (found.words < args->verb.size()) {
          const std::string& word = args->verb[found.words];
          return cox->Fail(absl::InvalidArgumentError(NoSuchVerb(*found.verb, word)));
        }
        cox->out() << HelpOf(*found.verb);
        return kOk;
      });
}

namespace {

using Json = nlohmann::ordered_json;

int RunVersion(Cox* cox, const std::string& output) {
  v1::BuildInfo client;
  client.set_version(std::string(BuildVersion()));
  client.set_commit(std::string(BuildCommit()));
  client.set_protocol(kWireProtocol);
  const absl::StatusOr<v1::BuildInfo> server = cox->Server().Version(std::chrono::seconds(2));
  if (IsStructured(output)) {
    const Json of_server = server.ok() ? MessageJson(*server) : Json(nullptr);
    PrintStructured({{"client", MessageJson(client)}, {"controller", of_server}}, output,
                    cox->out());
    return kOk;
  }
  cox->out() << ClientVersion() << "\n";
  if (server.ok()) {
    cox->out() << "controller " << OneLine(server->version()) << " (" << OneLine(server->commit())
               << ") at " << cox->Server().address() << "\n";
  } else if (!absl::IsUnavailable(server.status()) && !absl::IsDeadlineExceeded(server.status())) {
    cox->out() << "controller: " << OneLine(std::string(server.status().message())) << "\n";
  } else {
    cox->out() << "controller: none at " << cox->Server().address() << "\n";
  }
  return kOk;
}

}  // namespace

void AddVersion(CLI::App* app, Cox* cox) {
  auto output = std::make_shared<std::string>("table");
  Verb(app, "version", "Versions of cox and of the controller")
      .Output(output.get(), {"table", "json", "yaml"})
      .Run(cox, [cox, output] { return RunVersion(cox, *output); });
}

void AddCompletion(CLI::App* app, Cox* cox) {
  auto shell = std::make_shared<std::string>();
  Verb(app, "completion", "Print a completion script: source <(cox completion bash)")
      .RequiredWord("shell", shell.get(), {"bash", "zsh", "fish"}, "bash, zsh or fish")
      .Run(cox, [cox, app, shell]() -> int {
        cox->out() << CompletionScript(*app, *shell);
        return kOk;
      });
}

}  // namespace coxswain::cli
