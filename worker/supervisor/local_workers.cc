#include "worker/supervisor/local_workers.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace coxswain::supervisor {

absl::StatusOr<Endpoint> LocalWorkers::Find(int slot) const {
  const int64_t index = IndexOf(slot);
  if (index < 0 || index >= options_.workers) {
    return absl::NotFoundError(
        absl::StrCat("no worker of slot ", slot, " here: this supervisor runs slots ",
                     options_.first_slot, " to ", options_.first_slot + options_.workers - 1));
  }
  return ReadEndpoint(options_.state_dir, static_cast<int>(index));
}

access::Door LocalWorkers::MakeDoor() const {
  return access::Door({.open = options_.open,
                       .role_uri = options_.role_uri,
                       .join_tokens = [token = join_token_] { return token->Held(); }});
}

access::SignCall LocalWorkers::Sign() const {
  return access::SignByJoinToken(access::Role::kSupervisor,
                                 [token = join_token_] { return token->Held(); });
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> LocalWorkers::Dial(int slot) {
  ASSIGN_OR_RETURN(const Endpoint endpoint, Find(slot));
  MutexLock lock(mu_);
  Dialled& newest = newest_[slot];
  if (newest.pid == endpoint.pid && newest.address == endpoint.address) return newest.channel;
  ASSIGN_OR_RETURN(const SocketAddress address, ParseSocketAddress(endpoint.address));
  ASSIGN_OR_RETURN(const auto credentials,
                   ChannelCredentials(address, options_.tls, options_.insecure));
  newest = {.pid = endpoint.pid,
            .address = endpoint.address,
            .channel = NewChannel(endpoint.address, credentials)};
  return newest.channel;
}

}  // namespace coxswain::supervisor
