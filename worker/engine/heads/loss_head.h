// The head of a loss of tokens as the plan says it: its kernel, and in which pieces it runs.
#ifndef COXSWAIN_WORKER_ENGINE_HEADS_LOSS_HEAD_H_
#define COXSWAIN_WORKER_ENGINE_HEADS_LOSS_HEAD_H_

#include <cstdint>

#include "common/plan/plan.h"
#include "kernels/loss/cross_entropy.h"

namespace coxswain::engine {

struct LossHead {
  int64_t chunk_rows = 0;
  int64_t panel_bytes = 0;  // of the cut head, in Buffers::logits; 0: chunks
  kernels::CrossEntropySpec spec = {};
};

kernels::CrossEntropySpec LossSpec(const plan::Plan& plan);
LossHead LossHeadOf(const plan::Plan& plan);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_HEADS_LOSS_HEAD_H_
