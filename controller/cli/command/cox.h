// One invocation of cox.
#ifndef COXSWAIN_CONTROLLER_CLI_COMMAND_COX_H_
#define COXSWAIN_CONTROLLER_CLI_COMMAND_COX_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "controller/cli/connect/client.h"
#include "controller/cli/text/output.h"

namespace coxswain::cli {

// The tools of a verb. The parse callback of the verb sets `action`, which runs after parsing.
struct Cox {
  Terminal terminal;
  std::function<int64_t()> now_unix_ms;
  ConnectionFlags flags;
  std::function<int()> action;     // the chosen verb; returns the exit code
  std::unique_ptr<Client> client;  // made by Server()

  // The client of this invocation, made at the first call.
  Client& Server();
  // From now on Server() talks to the controller that this cox started at `address`. Flags,
  // environment and contexts no longer matter.
  void UseOwn(const std::string& address);
  std::ostream& out() const { return *terminal.out; }
  std::ostream& err() const { return *terminal.err; }

  // Prints "cox: message" to stderr; returns the exit code of the status.
  int Fail(const absl::Status& status) const;

 private:
  std::string own_;  // address given to UseOwn
};

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_COMMAND_COX_H_
