// Final logits, cross-entropy and their gradient, in chunks of rows that have a target.
#ifndef COXSWAIN_WORKER_ENGINE_LM_HEAD_H_
#define COXSWAIN_WORKER_ENGINE_LM_HEAD_H_

#include <cstdint>

#include "kernels/cross_entropy.h"
#include "kernels/lora_linear.h"
#include "worker/engine/sweep.h"

namespace coxswain::engine {

// In: Buffers::final_norm, rows and labels. Adds the losses to scalars->loss_sum: of the objective
// when training, plain nll otherwise, with the hits to scalars->hits. Training: head gradient
// accumulates (when trained) and dnorm [T, H] becomes the gradient of final_norm, scaled by
// scalars->gradient_scale.
// The logits of Buffers::rows[0 .. batch.target_rows), at most a chunk, into Buffers::logits.
void HeadLogits(const Sweep& sweep);

void LmHead(const Sweep& sweep, int64_t chunk_rows, kernels::CrossEntropySpec spec);

// The adapter of the head as the kernel sees it; members 0: none.
kernels::LoraLinearSpec HeadLoraSpec(const Model& model, bool train);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_LM_HEAD_H_
