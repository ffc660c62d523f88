// Codes of weights in FP8 that the plan keeps beside the weights.
#ifndef COXSWAIN_WORKER_ENGINE_OPS_KEPT_CODES_H_
#define COXSWAIN_WORKER_ENGINE_OPS_KEPT_CODES_H_

#include <cstdint>

#include "worker/engine/ops/sweep.h"

namespace coxswain::engine {

// Makes the codes of the block's weights that the plan keeps, where they may have changed
// (MayHaveChanged, fp8_linear.h).
void QuantizeKeptWeights(const Sweep& sweep, int64_t layer);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_OPS_KEPT_CODES_H_
