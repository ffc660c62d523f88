// What a spec must be for the CPU and for CUDA.
#include "kernels/loss/policy_terms.h"

namespace coxswain::kernels {

bool PolicyLossSupports(const PolicyLossSpec& spec) {
  const bool known = spec.objective == PolicyObjective::kImportance ||
                     spec.objective == PolicyObjective::kClip ||
                     spec.objective == PolicyObjective::kCispo;
  const bool counted = spec.normaliser == PolicyNormaliser::kTokens ||
                       spec.normaliser == PolicyNormaliser::kSequences ||
                       spec.normaliser == PolicyNormaliser::kConstant;
  return known && counted && spec.epsilon_low >= 0 && spec.epsilon_high >= 0 && spec.delta >= 0 &&
         spec.kl_weight >= 0;
}

}  // namespace coxswain::kernels
