// The optimizers as rows of a table: what each keeps of a trained tensor beside its value, and what
// its launch reads of one. Buffers, snapshots, checkpoints, resharding, memory and `cox plan`
// follow the table; nothing else names a state.
//
// Ownership: the rank that owns an element of a tensor (shard_map.h) keeps its states and updates
// it. A state has as many elements as the tensor has and is cut as it is: into ranges, wherever
// ranks meet.
#ifndef COXSWAIN_COMMON_PLAN_OPTIMIZER_STATES_H_
#define COXSWAIN_COMMON_PLAN_OPTIMIZER_STATES_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/plan/plan.h"
#include "common/plan/storage.h"

namespace coxswain::plan {

struct OptimizerState {
  const char* suffix;  // ".m": a checkpoint holds that of tensor `x` as `x.m`
  const char* row;     // "adam.m": of the buffer table
  Storage storage;
};

struct Optimizer {
  const char* name;  // Plan::optimizer
  std::vector<OptimizerState> states;
  int64_t record_bytes;  // of "optimizer.tensors", for each trained tensor
};

const std::vector<Optimizer>& Optimizers();
std::set<std::string> OptimizerNames();
// `plan` has passed CheckPlan.
const Optimizer& OptimizerOf(const Plan& plan);

// Memory of the states of one element: all of them.
int64_t StateBytesOfElement(const Optimizer& optimizer);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_OPTIMIZER_STATES_H_
