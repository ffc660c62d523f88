#include "worker/engine/snapshot/state_tensor.h"

#include "worker/engine/memory/weights.h"

namespace coxswain::engine {

ElementType FileDType(plan::Storage storage) {
  switch (storage) {
    case plan::Storage::kFloat32:
      return ElementType::kF32;
    case plan::Storage::kBfloat16:
      return ElementType::kBF16;
    default:
      return ElementType::kU8;
  }
}

std::vector<int64_t> StateShape(const plan::OptimizerState& state,
                                const model::Parameter& parameter) {
  if (state.block == 1) return FileShape(parameter);
  return {state.Elements(parameter.elements())};
}

}  // namespace coxswain::engine
