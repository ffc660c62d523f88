#include "common/access/join_token.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/access/local_secrets.h"
#include "common/access/secret_file.h"
#include "common/logging.h"
#include "common/net/socket_address.h"
#include "common/status_macros.h"

namespace coxswain::access {

JoinToken::JoinToken(std::string file, std::string controller)
    : file_(std::move(file)), controller_(std::move(controller)) {}

absl::StatusOr<std::string> JoinToken::Read() const {
  if (!file_.empty()) return ReadSecret(file_);
  ASSIGN_OR_RETURN(const SocketAddress address, ParseSocketAddress(controller_));
  if (IsLoopback(address.host)) return FindLocalSecret(address.port, kJoinToken);
  return absl::NotFoundError(
      absl::StrCat("no --join-token-file is given, and ", controller_, " is another machine"));
}

std::vector<std::string> JoinToken::Held() {
  absl::StatusOr<std::string> read = Read();
  const auto now = std::chrono::steady_clock::now();
  MutexLock lock(mu_);
  if (read.ok()) {
    if (held_ != *read) {
      before_ = std::exchange(held_, *std::move(read));
      changed_ = now;
    }
    told_ = false;
  } else if (!std::exchange(told_, true) && held_.empty()) {
    log::Info("no join token: a certificate must say who this is",
              {{"error", std::string(read.status().message())}});
  }
  if (held_.empty()) return {};
  if (before_.empty() || now - changed_ >= kBoth) return {held_};
  return {held_, before_};
}

}  // namespace coxswain::access
