#include <memory>

#include "common/identity.h"
#include "common/net/message_json.h"
#include "common/outside_text.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/command/verbs.h"
#include "controller/cli/connect/client_version.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/output.h"

namespace coxswain::cli {
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

}  // namespace coxswain::cli
