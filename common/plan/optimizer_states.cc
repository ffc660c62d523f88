#include "common/plan/optimizer_states.h"

#include <algorithm>

#include "kernels/tensor_records.h"

namespace coxswain::plan {

const std::vector<Optimizer>& Optimizers() {
  static const auto& table = *new std::vector<Optimizer>{
      {.name = "adamw",
       .states = {{".m", "adam.m", Storage::kFloat32}, {".v", "adam.v", Storage::kFloat32}},
       .record_bytes = sizeof(kernels::AdamWTensor)},
  };
  return table;
}

std::set<std::string> OptimizerNames() {
  std::set<std::string> names;
  for (const Optimizer& optimizer : Optimizers()) names.emplace(optimizer.name);
  return names;
}

const Optimizer& OptimizerOf(const Plan& plan) {
  const std::vector<Optimizer>& table = Optimizers();
  const auto found = std::find_if(table.begin(), table.end(), [&](const Optimizer& optimizer) {
    return optimizer.name == plan.optimizer;
  });
  return found == table.end() ? table.front() : *found;
}

int64_t StateBytesOfElement(const Optimizer& optimizer) {
  int64_t bytes = 0;
  for (const OptimizerState& state : optimizer.states) bytes += StorageBytes(state.storage, 1);
  return bytes;
}

}  // namespace coxswain::plan
