// A prepared engine whose operands in FP8 all look for their amax
// (common/plan/buffers/fp8_amaxes.h).
#ifndef COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_FP8_AMAXES_H_
#define COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_FP8_AMAXES_H_

#include <variant>
#include <vector>

#include "worker/engine/step/state.h"

namespace coxswain::engine {

// Returns how many of its linears knew one. Graphs that were captured before still know it.
inline int ForgetKnownAmaxes(State& state) {
  int forgotten = 0;
  const auto forget = [&forgotten](BoundLinear* linear) {
    for (BoundFp8Amax* amax : {&linear->fp8.amax_of_x, &linear->fp8.amax_of_dy}) {
      forgotten += amax->known != nullptr;
      amax->known = nullptr;
    }
    linear->fp8.weight_amax = nullptr;
  };
  for (BoundBlock& block : state.ops.blocks) {
    for (std::vector<BoundOp>* ops : {&block.forward, &block.backward, &block.again}) {
      for (BoundOp& op : *ops) {
        if (auto* linear = std::get_if<BoundLinear>(&op)) forget(linear);
        if (auto* with_add = std::get_if<BoundLinearAdd>(&op)) forget(&with_add->linear);
      }
    }
  }
  return forgotten;
}

}  // namespace coxswain::engine

#endif  // COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_FP8_AMAXES_H_
