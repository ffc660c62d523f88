#include "common/plan/embedding_rows.h"
#include "common/plan/storage.h"

#include <algorithm>

namespace coxswain::plan {
namespace {

// Of the matrix: its reduction over the shard group, and of the owned range over the replicas.
int64_t MatrixBytesReceived(const Plan& plan, const model::Parameter& embedding) {
  const int64_t bytes = StorageBytes(*StorageOf(plan, embedding).gradient, embedding.elements());
  const int64_t owned = bytes / plan.shard;
  return (plan.shard - 1) * owned + 2 * (plan.replicate - 1) * (owned / plan.replicate);
}

}  // namespace

int64_t EmbeddingRowTokens(const Plan& plan) {
  return plan.world_size() * plan.micro_batch_bins * plan.sequence_len;
}

int64_t EmbeddingRowBytesReceived(const Plan& plan) {
  const int64_t others = EmbeddingRowTokens(plan) / plan.world_size() * (plan.world_size() - 1);
  return others * (plan.model.hidden_size * ComputeBytes(plan) + int64_t{4});
}

bool ExchangesEmbeddingRows(const Plan& plan) {
  const auto embedding =
      std::find_if(plan.parameters.begin(), plan.parameters.end(),
                   [](const model::Parameter& p) { return model::IsEmbedding(p); });
  if (plan.world_size() == 1 || embedding == plan.parameters.end() || !embedding->trainable()) {
    return false;
  }
  if (plan.model.labels > 0) return false;  // there are no logits
  const int64_t rows = EmbeddingRowTokens(plan) * plan.model.hidden_size;
  const int64_t room = plan.lm_head_panel_bytes > 0
                           ? plan.lm_head_panel_bytes / ComputeBytes(plan)
                           : plan.lm_head_chunk_tokens * plan.model.vocab_size;
  return 2 * EmbeddingRowBytesReceived(plan) <= MatrixBytesReceived(plan, *embedding) &&
         rows <= room;
}

}  // namespace coxswain::plan
