#include "common/plan/precision.h"

namespace coxswain::plan {

bool HasBfloat16Gradient(const Plan& plan, const model::Parameter& parameter) {
  const bool adapter = model::IsAdapter(parameter.role);
  const bool tied = parameter.role == model::Role::kEmbedding && plan.model.tie_embeddings;
  return plan.gradient_dtype == "bfloat16" && parameter.cols > 1 && !adapter && !tied;
}

bool HasMaster(const Plan& plan, const model::Parameter& parameter) {
  const bool adapter = model::IsAdapter(parameter.role);
  return plan.compute_dtype == "bfloat16" && parameter.trainable() &&
         (adapter || plan.master_dtype == "float32");
}

int ComputeBytes(const Plan& plan) {
  return plan.compute_dtype == "bfloat16" ? kBfloat16Bytes : kFloat32Bytes;
}

int GradientBytes(const Plan& plan, const model::Parameter& parameter) {
  return HasBfloat16Gradient(plan, parameter) ? kBfloat16Bytes : kFloat32Bytes;
}

}  // namespace coxswain::plan
