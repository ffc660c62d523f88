// A loss of reinforcement learning by token (kernels/loss/policy_loss.h), as a plan has it.
#ifndef COXSWAIN_COMMON_PLAN_POLICY_LOSS_H_
#define COXSWAIN_COMMON_PLAN_POLICY_LOSS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "kernels/loss/policy_loss.h"

namespace coxswain::plan {

// What an objective does not read is 0.
struct PolicyLoss {
  std::string objective;              // "importance" | "clip" | "cispo"; empty: no such loss
  std::string ratio = "token";        // "token" | "sequence"
  std::string normaliser = "tokens";  // "tokens" | "sequences" | "constant"
  double epsilon_low = 0.0;           // of "clip", >= 0
  double epsilon_high = 0.0;          // of "clip", >= 0; of "cispo", > 0: the bound itself
  double delta = 0.0;                 // of "clip", >= 0; 0: none
  double kl_weight = 0.0;             // >= 0; > 0: the commands bring references

  bool any() const { return !objective.empty(); }
  bool has_kl() const { return kl_weight > 0; }
  // Of a step's denominator: 1, it counts documents or more; 0, targets.
  int64_t documents_per_unit() const { return any() && normaliser != "tokens" ? 1 : 0; }
  bool operator==(const PolicyLoss&) const = default;
};

// `loss` must have passed CheckPolicyLoss.
kernels::PolicyLossSpec SpecOf(const PolicyLoss& loss);

// InvalidArgument names the field and its value.
absl::Status CheckPolicyLoss(const PolicyLoss& loss);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_POLICY_LOSS_H_
