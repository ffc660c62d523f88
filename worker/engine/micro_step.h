// One forward, or forward and backward, of the staged micro-batch.
#ifndef COXSWAIN_WORKER_ENGINE_MICRO_STEP_H_
#define COXSWAIN_WORKER_ENGINE_MICRO_STEP_H_

#include <cstdint>
#include <vector>

#include "kernels/embedding.h"
#include "worker/engine/sweep.h"

namespace coxswain::engine {

// The units in the order in which the sweeps below read their weights: forward; head and backward,
// or the head alone. Units that are read again at once stand there once.
std::vector<int32_t> ForwardVisits(const Model& model);
std::vector<int32_t> BackwardVisits(const Model& model, const BoundModel& ops, bool train);

// Computes everything from the embedding to final_norm [T, H].
void ForwardToFinalNorm(const Sweep& sweep);

// Goes back from dnorm, the gradient of final_norm, to the lowest trained tensor.
void BackwardFromFinalNorm(const Sweep& sweep);

kernels::EmbeddingSpec TokenEmbeddingSpec(const Model& model);
// Lookups of rows of A of the embedding's adapter, and their gradient.
kernels::EmbeddingSpec AdapterEmbeddingSpec(const Model& model);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_MICRO_STEP_H_
