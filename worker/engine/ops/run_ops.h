// Launches of bound ops.
#ifndef COXSWAIN_WORKER_ENGINE_OPS_RUN_OPS_H_
#define COXSWAIN_WORKER_ENGINE_OPS_RUN_OPS_H_

#include "worker/engine/ops/bound_ops.h"
#include "worker/engine/ops/sweep.h"

namespace coxswain::engine {

void RunForward(const Sweep& sweep, const BoundOp& op);

// Gradients of parameters accumulate.
void RunBackward(const Sweep& sweep, const BoundOp& op);

void NormBackward(const Sweep& sweep, const BoundNorm& norm);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_OPS_RUN_OPS_H_
