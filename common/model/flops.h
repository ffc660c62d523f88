// Floating-point operations of training, counted from the parameter table.
//
// Conventions: a multiply-add is two operations; only weights that enter a matrix product count
// (the embedding gather is free, a tied head counts once); attention is counted without the causal
// half, over min(sequence_len, window) positions. Recomputation is not included.
// Source: torchtitan, get_nparams_and_flops; for frozen bases the weight-gradient product is
// absent.
#ifndef COXSWAIN_COMMON_MODEL_FLOPS_H_
#define COXSWAIN_COMMON_MODEL_FLOPS_H_

#include <cstdint>
#include <vector>

#include "common/model/model_config.h"
#include "common/plan/plan.h"

namespace coxswain::model {

// Per token, forward and backward together.
struct FlopsPerToken {
  double base = 0;       // 6 per element of a trainable matrix of the base, 4 per frozen one
  double adapter = 0;    // 6 per element of A and B
  double attention = 0;  // 12 x heads x head_dim x positions, summed over layers
  double total() const { return base + adapter + attention; }
};

FlopsPerToken TrainingFlops(const ModelConfig& config, const std::vector<plan::Parameter>& table,
                            int64_t sequence_len);

// Forward alone: 2 per element and a third of the attention. Evaluation, and what recompute "block"
// adds to a training step.
double ForwardFlopsPerToken(const ModelConfig& config, const std::vector<plan::Parameter>& table,
                            int64_t sequence_len);

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_FLOPS_H_
