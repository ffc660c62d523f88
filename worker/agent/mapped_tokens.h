// The controller's token stores, mapped where this worker sees the same storage.
#ifndef COXSWAIN_WORKER_AGENT_MAPPED_TOKENS_H_
#define COXSWAIN_WORKER_AGENT_MAPPED_TOKENS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/data/token_store.h"
#include "coxswain/v1/worker_service.pb.h"

namespace coxswain::agent {

struct MappedTokens {
  std::unique_ptr<data::TokenStore> train;
  std::unique_ptr<data::TokenStore> eval;  // null: none was offered
};

// Maps the stores that are offered. The result is null when nothing is offered, or the nonce beside
// the stores is not to be read here, so that commands must carry their tokens. DataLoss: the
// storage is the controller's, but a file of that name is damaged or another than it has mapped;
// names the file and both values.
absl::StatusOr<std::shared_ptr<const MappedTokens>> MapTokens(const v1::TokenStores& offered);

}  // namespace coxswain::agent

#endif  // COXSWAIN_WORKER_AGENT_MAPPED_TOKENS_H_
