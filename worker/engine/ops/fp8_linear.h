// The products of a linear in FP8 (kernels/products/fp8_gemm.h). Operands are quantised right
// before their product, x of a trained linear once for forward and backward, where the plan keeps
// it. Weights whose codes ranks gather come quantised, and are turned here.
#ifndef COXSWAIN_WORKER_ENGINE_OPS_FP8_LINEAR_H_
#define COXSWAIN_WORKER_ENGINE_OPS_FP8_LINEAR_H_

#include "absl/status/status.h"
#include "worker/engine/ops/bound_ops.h"
#include "worker/engine/ops/dense.h"
#include "worker/engine/ops/sweep.h"

namespace coxswain::engine {

// Whether this sweep computes the linear in FP8. Answers to prompts are computed in the compute
// dtype.
bool RunsInFp8(const Sweep& sweep, const BoundLinear& op);

// Whether this is the first forward since the weight may have changed: of the command, as an update
// may lie before it, or since weights were read, where the weight is frozen.
bool MayHaveChanged(const Sweep& sweep, const Tensor& weight);

// Makes both operands of a weight whose codes are kept.
void QuantizeKeptWeight(const Sweep& sweep, const BoundLinear& op);

void Fp8Forward(const Sweep& sweep, const BoundLinear& op, const DenseForwardArgs& args);

// The gradient of the weight, where it is trained, and dx, where it is wanted, from dy.
void Fp8Backward(const Sweep& sweep, const BoundLinear& op, const void* dy);

// Unimplemented names the recipe where this build or this GPU has not its products.
absl::Status CheckFp8(const plan::Plan& plan, const Model& model);

// Bytes of scratch for so many tokens; the largest of its launches.
int64_t Fp8ScratchBytes(const Model& model, const Linear& linear, const plan::Fp8Formats& formats,
                        int64_t tokens);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_OPS_FP8_LINEAR_H_
