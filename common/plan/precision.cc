#include "common/plan/plan.h"

namespace coxswain::plan {

bool HasBfloat16Gradient(const Plan& plan, const Parameter& parameter) {
  const bool adapter = static_cast<uint32_t>(parameter.role) >= static_cast<uint32_t>(Role::kLoraA);
  const bool tied = parameter.role == Role::kEmbedding && plan.model.tie_embeddings;
  return plan.gradient_dtype == "bfloat16" && parameter.cols > 1 && !adapter && !tied;
}

bool HasMaster(const Plan& plan, const Parameter& parameter) {
  const bool adapter = static_cast<uint32_t>(parameter.role) >= static_cast<uint32_t>(Role::kLoraA);
  return plan.compute_dtype == "bfloat16" && parameter.trainable() &&
         (adapter || plan.master_dtype == "float32");
}

}  // namespace coxswain::plan
