#include "controller/cli/cox.h"

#include "absl/strings/str_replace.h"
#include "common/net/grpc_endpoint.h"
#include "common/outside_text.h"
#include "controller/cli/exit_code.h"
#include "controller/cli/state_dir.h"

namespace coxswain::cli {

Client& Cox::Server() {
  if (client == nullptr)
    client = std::make_unique<Client>(ResolveServer(server_flag),
                                      TlsFiles{tls_cert, tls_key, tls_ca}, insecure, token_file);
  return *client;
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
