// Which gradients backward computes: those that a trained tensor lies behind.
#ifndef COXSWAIN_WORKER_ENGINE_NEEDED_GRADIENTS_H_
#define COXSWAIN_WORKER_ENGINE_NEEDED_GRADIENTS_H_

#include <cstdint>
#include <map>

#include "common/model/ops.h"
#include "worker/engine/model.h"

namespace coxswain::engine {

struct NeededGradients {
  bool of_input = false, of_output = false;  // of an op
};

// Walks the ops of the model in forward order.
class GradientNeeds {
 public:
  explicit GradientNeeds(const Model& model) : model_(model) {}

  // The next op, of block `layer`.
  NeededGradients Visit(const model::Op& op, int64_t layer);

 private:
  NeededGradients Through(const model::Row& in, const model::Row& out, bool trained);

  const Model& model_;
  std::map<model::Row, bool> needed_;
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_NEEDED_GRADIENTS_H_
