// Decides which gradients backward computes: those on the way to a trained tensor.
#ifndef COXSWAIN_WORKER_ENGINE_MEMORY_NEEDED_GRADIENTS_H_
#define COXSWAIN_WORKER_ENGINE_MEMORY_NEEDED_GRADIENTS_H_

#include <cstdint>
#include <map>

#include "common/model/ops.h"
#include "worker/engine/memory/model.h"

namespace coxswain::engine {

struct NeededGradients {
  bool of_input = false, of_output = false;  // the gradient of an op's input, of its output
  bool of_weights = false;  // of a CombineOp: that of the router's weights; of a gate: its logits'
};

// Walks the ops of the model in forward order.
class GradientNeeds {
 public:
  explicit GradientNeeds(const Model& model) : model_(model) {}

  // Visits the next op, in block `layer`.
  NeededGradients Visit(const model::PlainOp& op, int64_t layer);

 private:
  // With the block of the op as `block`.
  template <typename Op>
  NeededGradients Of(const Op& op, const Block& block);
  NeededGradients Through(const model::Row& in, const model::Row& out, bool trained);

  const Model& model_;
  std::map<model::Row, bool> needed_;
  std::map<int32_t, model::Row> weights_;  // of the block's routers
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_MEMORY_NEEDED_GRADIENTS_H_
