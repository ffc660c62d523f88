#include "worker/engine/ops/kept_codes.h"

#include <variant>

#include "worker/engine/ops/fp8_experts.h"
#include "worker/engine/ops/fp8_linear.h"

namespace coxswain::engine {
namespace {

template <typename BoundOpType>
void QuantizeIfDue(const Sweep& sweep, const BoundOpType& op) {
  if (!RunsInFp8(sweep, op)) return;
  if (MayHaveChanged(sweep, op.linear->weight)) QuantizeKeptWeight(sweep, op);
}

}  // namespace

void QuantizeKeptWeights(const Sweep& sweep, int64_t layer) {
  if (!sweep.model.keeps_fp8_weights || !(sweep.first || sweep.after_load)) return;
  for (const BoundOp& op : sweep.ops.blocks[static_cast<size_t>(layer)].forward) {
    if (const auto* linear = std::get_if<BoundLinear>(&op)) {
      QuantizeIfDue(sweep, *linear);
    } else if (const auto* with_add = std::get_if<BoundLinearAdd>(&op)) {
      QuantizeIfDue(sweep, with_add->linear);
    } else if (const auto* experts = std::get_if<BoundGroupedLinear>(&op)) {
      QuantizeIfDue(sweep, *experts);
    }
  }
}

}  // namespace coxswain::engine
