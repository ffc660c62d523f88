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

// Maps the offered stores. Null when nothing is offered, or when the nonce beside the stores cannot
// be read here; commands must then carry their tokens. DataLoss: this is the controller's storage,
// but a file is damaged or differs from the one that the controller mapped. It names the file and
// both values.
absl::StatusOr<std::shared_ptr<const MappedTokens>> MapTokens(const v1::TokenStores& offered);

}  // namespace coxswain::agent

#endif  // COXSWAIN_WORKER_AGENT_MAPPED_TOKENS_H_
