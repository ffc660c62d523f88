// The products of a mixture's experts in FP8 (kernels/experts/grouped_fp8_linear.h): those that
// read rows. Rows are quantised right before their product, all experts' with one scale.
#ifndef COXSWAIN_WORKER_ENGINE_OPS_FP8_EXPERTS_H_
#define COXSWAIN_WORKER_ENGINE_OPS_FP8_EXPERTS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/model/ops.h"
#include "worker/engine/ops/bound_ops.h"
#include "worker/engine/ops/sweep.h"

namespace coxswain::engine {

// As RunsInFp8 of a linear.
bool RunsInFp8(const Sweep& sweep, const BoundGroupedLinear& op);

// Makes both operands of weights whose codes are kept.
void QuantizeKeptWeight(const Sweep& sweep, const BoundGroupedLinear& op);

// y, without what adapters add.
void Fp8ExpertsForward(const Sweep& sweep, const BoundGroupedLinear& op);
// dx, which is wanted, without what adapters add.
void Fp8ExpertsInputGradient(const Sweep& sweep, const BoundGroupedLinear& op);

// Unimplemented names what this build or this GPU has not.
absl::Status CheckFp8Experts(const plan::Plan& plan, const Model& model);

// Bytes of scratch for so many tokens; the largest of the launches.
int64_t Fp8ExpertsScratchBytes(const Model& model, const model::GroupedLinearOp& op,
                               const plan::Fp8Formats& formats, int64_t tokens);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_OPS_FP8_EXPERTS_H_
