// Floating-point operations of training, counted from the parameter table.
//
// Conventions: a multiply-add is two operations; only weights that enter a matrix product count
// (the embedding gather is free, a tied head counts once); attention is counted without the causal
// half, over min(sequence_len, window) positions; of the experts of a layer those of a token count.
// Recomputation is not included.
// Source: torchtitan, get_nparams_and_flops; for frozen bases the weight-gradient product is
// absent.
#ifndef COXSWAIN_COMMON_MODEL_FLOPS_H_
#define COXSWAIN_COMMON_MODEL_FLOPS_H_

#include <cstdint>
#include <vector>

#include "common/model/model_config.h"
#include "common/model/parameter.h"

namespace coxswain::model {

// Per token, forward and backward together.
struct FlopsPerToken {
  // 6 per element of a trainable matrix of the base, 4 per frozen one; of experts those of a
  // token's
  double base = 0;
  double adapter = 0;    // 6 per element of A and B
  double attention = 0;  // 6 x heads x (head_dim + value_dim) x positions, summed over layers
  double total() const { return base + adapter + attention; }
};

FlopsPerToken TrainingFlops(const ModelConfig& config, const std::vector<Parameter>& table,
                            int64_t sequence_len);

// Elements of the tensors that a token meets: of experts, those of its own alone.
int64_t ActiveParameters(const ModelConfig& config, const std::vector<Parameter>& table);

// Attention of one document of `length` tokens, forward and backward: `length` times the attention
// per token above.
double AttentionFlops(const ModelConfig& config, int64_t length);

// Forward alone: 2 per element and a third of the attention. Evaluation, and what recompute "block"
// adds to a training step.
double ForwardFlopsPerToken(const ModelConfig& config, const std::vector<Parameter>& table,
                            int64_t sequence_len);

// Model FLOPs utilisation: the operations that the model needs, in the convention above (6 per
// trainable matrix element, 4 per frozen one, plus attention; recomputation does not count), over
// what the devices could do. 0 when the peak is unknown (0).
// Source: Chowdhery et al., "PaLM", 2022, appendix B.
double ModelFlopsUtilisation(double flops_per_token, double tokens_per_second,
                             double peak_flops_per_second);

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_FLOPS_H_
