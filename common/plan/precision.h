// In which precision a trainable tensor is kept beside its compute dtype.
#ifndef COXSWAIN_COMMON_PLAN_PRECISION_H_
#define COXSWAIN_COMMON_PLAN_PRECISION_H_

#include "common/plan/plan.h"

namespace coxswain::plan {

// They say whether the gradient of a trainable tensor is bfloat16, and whether it has a float32
// master beside its bfloat16 weights.
bool HasBfloat16Gradient(const Plan& plan, const model::Parameter& parameter);
bool HasMaster(const Plan& plan, const model::Parameter& parameter);

inline constexpr int kFloat32Bytes = 4, kBfloat16Bytes = 2;
// Bytes of an element of weights and activations, and of the gradient of a trainable tensor.
int ComputeBytes(const Plan& plan);
int GradientBytes(const Plan& plan, const model::Parameter& parameter);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_PRECISION_H_
