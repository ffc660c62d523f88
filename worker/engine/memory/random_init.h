// Initial values of a tensor that is not loaded, as a pure function of (seed, role, layer,
// element).
#ifndef COXSWAIN_WORKER_ENGINE_MEMORY_RANDOM_INIT_H_
#define COXSWAIN_WORKER_ENGINE_MEMORY_RANDOM_INIT_H_

#include <cstdint>

#include "common/plan/plan.h"
#include "kernels/tensors/whole_tensors.h"

namespace coxswain::engine {

// Norms multiply by 1: their weights are 1, or 0 if they count from one. Biases and LoRA B are 0.
// LoRA A is uniform in +-1/sqrt(cols). Matrices are normal(0, 0.02). In the adapter of an embedding
// A is 0 and B is normal(0, 1). Source: transformers _init_weights; peft reset_lora_parameters
// (Kaiming uniform, a = sqrt 5).
kernels::RandomFillArgs RandomInit(uint64_t seed, const model::Parameter& parameter,
                                   const model::ModelConfig& model);

// Values like those of a trained model, for tensors that are not gathered yet: RandomInit, and
// about 1 for DoRA's magnitudes, which are norms of rows.
kernels::RandomFillArgs StandIn(const model::Parameter& parameter, const model::ModelConfig& model);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_MEMORY_RANDOM_INIT_H_
