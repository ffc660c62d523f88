#include "controller/cli/command/cox.h"

#include "absl/strings/str_replace.h"
#include "common/outside_text.h"
#include "controller/cli/machine/state_dir.h"
#include "controller/cli/text/exit_code.h"

namespace coxswain::cli {
namespace {

Connection OwnConnection(const std::string& address) {
  Connection connection;
  connection.server = address;
  return connection;
}

}  // namespace

Client& Cox::Server() {
  if (client == nullptr) {
    client = std::make_unique<Client>(
        own_.empty() ? FindConnection(flags) : absl::StatusOr<Connection>(OwnConnection(own_)));
  }
  return *client;
}

void Cox::UseOwn(const std::string& address) {
  own_ = address;
  client.reset();
}

int Cox::Fail(const absl::Status& status) const {
  std::string message = CleanText(std::string(status.message()));
  while (message.ends_with('\n')) message.pop_back();
  err() << "cox: " << absl::StrReplaceAll(message, {{"\n", "\n  "}}) << "\n";
  if (absl::IsUnavailable(status) && client != nullptr) {
    err() << CleanText(EndedController(client->address()));
  }
  return ExitOf(status);
}

}  // namespace coxswain::cli
