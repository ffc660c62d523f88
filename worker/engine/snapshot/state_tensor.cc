#include "worker/engine/snapshot/state_tensor.h"

#include "worker/engine/memory/weights.h"

namespace coxswain::engine {

DType FileDType(plan::Storage storage) {
  switch (storage) {
    case plan::Storage::kFloat32:
      return DType::kF32;
    case plan::Storage::kBfloat16:
      return DType::kBF16;
    default:
      return DType::kU8;
  }
}

std::vector<int64_t> StateShape(const plan::OptimizerState& state,
                                const model::Parameter& parameter) {
  if (state.block == 1) return FileShape(parameter);
  return {state.Elements(parameter.elements())};
}

}  // namespace coxswain::engine
