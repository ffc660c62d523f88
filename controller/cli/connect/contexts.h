// Named controllers, as `cox config` stores them: address, certificates and token of each.
#ifndef COXSWAIN_CONTROLLER_CLI_CONNECT_CONTEXTS_H_
#define COXSWAIN_CONTROLLER_CLI_CONNECT_CONTEXTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace coxswain::cli {

// Paths are absolute. Fields that are not set are empty.
struct Context {
  std::string name;
  std::string server;  // host:port
  std::string ca;      // PEM file of the CA that signed the controller's certificate
  std::string cert;    // PEM files of this client
  std::string key;
  std::string token_file;  // read at each call; the token itself is not stored here
};

struct Contexts {
  std::string current;  // name of the context in use; empty: none
  std::vector<Context> list;

  const Context* Find(const std::string& name) const;  // null: unknown
};

// $XDG_CONFIG_HOME/coxswain/config.yaml, else ~/.config/coxswain/config.yaml.
std::string ContextsFile();

// Without a file: no contexts. InvalidArgument names file, line and key of the fault.
// PermissionDenied: other users may write the file, and could choose the server that receives the
// token.
absl::StatusOr<Contexts> ReadContexts(const std::string& path);

// Replaces the file atomically by one of mode 0600, and makes its folder. A symbolic link stays a
// link.
absl::Status WriteContexts(const std::string& path, const Contexts& contexts);

// NotFound lists the existing names.
absl::StatusOr<Context> GetContext(const Contexts& contexts, const std::string& name);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_CONNECT_CONTEXTS_H_
