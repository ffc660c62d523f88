// One packed linear layer with its adapters.
#ifndef COXSWAIN_WORKER_ENGINE_OPS_LINEAR_H_
#define COXSWAIN_WORKER_ENGINE_OPS_LINEAR_H_

#include "kernels/lora/lora_linear.h"
#include "worker/engine/ops/bound_ops.h"
#include "worker/engine/ops/sweep.h"

namespace coxswain::engine {

void LinearForward(const Sweep& sweep, const BoundLinear& op);

void LinearRotationForward(const Sweep& sweep, const BoundLinearRotation& op);
void LinearAddForward(const Sweep& sweep, const BoundLinearAdd& op);

// Gradients of weight, bias and adapters accumulate; a frozen tensor costs no GEMM.
void LinearBackward(const Sweep& sweep, const BoundLinear& op);
// Computes the gradients that need x, of a linear without adapters.
void LinearParameterGradients(const Sweep& sweep, const BoundLinear& op);

// Arguments for the launches of an adapted linear. y includes the bias, dx the product with W.
kernels::LoraLinearForwardArgs AdaptedForwardArgs(const Sweep& sweep, const BoundLinear& op);
kernels::LoraLinearBackwardArgs AdaptedBackwardArgs(const Sweep& sweep, const BoundLinear& op);

// The dropout mask of the input of the linear's adapters, for all tokens.
kernels::DropoutMask DropoutOf(const Sweep& sweep, const Linear& linear);

// The adapters of `linear` as the kernel sees them, without dropout when not training.
kernels::LoraLinearSpec LoraSpec(const Model& model, const Linear& linear, bool train);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_OPS_LINEAR_H_
