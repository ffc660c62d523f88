// One forward, or forward and backward, of the staged micro-batch.
#ifndef COXSWAIN_WORKER_ENGINE_OPS_MICRO_STEP_H_
#define COXSWAIN_WORKER_ENGINE_OPS_MICRO_STEP_H_

#include <cstdint>
#include <vector>

#include "kernels/tensors/rows.h"
#include "worker/engine/ops/sweep.h"

namespace coxswain::engine {

// The units in the order in which sweeps read their weights. ForwardVisits: the forward.
// BackwardVisits: head and backward, or without `train` the head alone. A unit that is read twice
// in a row is listed once.
std::vector<int32_t> ForwardVisits(const Model& model);
std::vector<int32_t> BackwardVisits(const Model& model, const BoundModel& ops, bool train);

// Computes everything from the embedding to final_norm [T, H].
void ForwardToFinalNorm(const Sweep& sweep);

// Computes the backward from dnorm, the gradient of final_norm, down to the lowest trained tensor.
void BackwardFromFinalNorm(const Sweep& sweep);

kernels::EmbeddingSpec TokenEmbeddingSpec(const Model& model);
// For lookups of rows of A of the embedding's adapter, and for their gradient.
kernels::EmbeddingSpec AdapterEmbeddingSpec(const Model& model);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_OPS_MICRO_STEP_H_
