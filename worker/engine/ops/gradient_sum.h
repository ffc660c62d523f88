// How the gradient of a weight takes the terms of micro-steps and chunks of the head.
#ifndef COXSWAIN_WORKER_ENGINE_OPS_GRADIENT_SUM_H_
#define COXSWAIN_WORKER_ENGINE_OPS_GRADIENT_SUM_H_

#include <cstdint>

#include "kernels/tensors/gradient_sum.h"
#include "worker/engine/memory/model.h"
#include "worker/engine/ops/sweep.h"

namespace coxswain::engine {

// Whether a product for the gradient of `weight` goes through Buffers::gradient_term. Else it adds
// itself: a float32 gradient, one in a slot of ZeRO, or a plan that rounds to nearest.
bool TakesTerms(const Sweep& sweep, const Tensor& weight);

// The mode of the plan, for a weight that takes terms; else to nearest. `part` numbers the terms of
// a micro-step.
kernels::GradientSum SumOf(const Sweep& sweep, const Tensor& weight, int64_t part = 0);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_OPS_GRADIENT_SUM_H_
