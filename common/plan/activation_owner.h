// Which layer's memory an activation of a layer lives in: a recompute level is aliasing of rows of
// the buffer table, decided here for the planner that writes it and the engine that binds it.
#ifndef COXSWAIN_COMMON_PLAN_ACTIVATION_OWNER_H_
#define COXSWAIN_COMMON_PLAN_ACTIVATION_OWNER_H_

#include <cstdint>
#include <string_view>

#include "common/plan/plan.h"

namespace coxswain::plan {

// The owner of row "layer{layer}.{row}": `layer` itself when the row is kept for backward, else the
// layer whose row it shares and which is computed again.
inline int64_t ActivationOwner(const Plan& plan, int64_t layer, std::string_view row) {
  const bool norm_or_product = row == "ln1" || row == "ln2" || row == "swiglu";
  if (plan.recompute == "norm_swiglu") return norm_or_product ? 0 : layer;
  if (plan.recompute == "ffn")
    return norm_or_product || row == "gate_up" || row == "gate_up_u" ? 0 : layer;
  if (plan.recompute != "block") return layer;
  const int64_t in_segment = layer % plan.recompute_every;
  return row == "residual_in" && in_segment == 0 ? layer : in_segment;
}

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_ACTIVATION_OWNER_H_
