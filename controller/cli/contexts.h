// Controllers by name, as `cox config` keeps them: where each is, and what proves who calls.
#ifndef COXSWAIN_CONTROLLER_CLI_CONTEXTS_H_
#define COXSWAIN_CONTROLLER_CLI_CONTEXTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace coxswain::cli {

// Paths are absolute; what is not set is empty.
struct Context {
  std::string name;
  std::string server;  // host:port
  std::string ca;      // PEM file of the CA that signed the controller's certificate
  std::string cert;    // PEM files of this client
  std::string key;
  std::string token_file;  // the file is read at each call; no token is kept here
};

struct Contexts {
  std::string current;  // name of the one in use; empty: none
  std::vector<Context> list;

  const Context* Find(const std::string& name) const;  // null: none of this name
};

// $XDG_CONFIG_HOME/coxswain/config.yaml, else ~/.config/coxswain/config.yaml.
std::string ContextsFile();

// Nothing where there is no file. InvalidArgument names file, line and key of what is wrong;
// PermissionDenied: others may write the file, and so choose whom the token is shown to.
absl::StatusOr<Contexts> ReadContexts(const std::string& path);

// Replaces the file by one of mode 0600, whole or not at all; makes its folder. A link stays one.
absl::Status WriteContexts(const std::string& path, const Contexts& contexts);

// NotFound with the names that there are.
absl::StatusOr<Context> GetContext(const Contexts& contexts, const std::string& name);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_CONTEXTS_H_
