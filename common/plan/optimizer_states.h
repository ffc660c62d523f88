// The optimizers as rows of a table: what each keeps of a trained tensor beside its value, and what
// its launch reads of one. Buffers, snapshots, checkpoints, resharding, memory and `cox plan`
// follow the table; nothing else names a state.
//
// Ownership: the rank that owns an element of a tensor (shard_map.h) keeps its states and updates
// it. A state has an element for each of the tensor, or for each block of them, and is cut as the
// tensor is: into ranges, wherever ranks meet, but never inside a block.
#ifndef COXSWAIN_COMMON_PLAN_OPTIMIZER_STATES_H_
#define COXSWAIN_COMMON_PLAN_OPTIMIZER_STATES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/plan/plan.h"
#include "common/plan/storage.h"

namespace coxswain::plan {

// Which trained tensors have a state: InBlocks says which are in blocks.
enum class StateOf : uint8_t { kAll, kInBlocks, kNotInBlocks };

struct OptimizerState {
  const char* suffix;  // ".m": a checkpoint holds that of tensor `x` as `x.m`
  const char* row;     // "adam.m": of the buffer table
  Storage storage;
  StateOf of = StateOf::kAll;
  int64_t block = 1;  // neighbours of a tensor that share one element of the state

  // Of a tensor of so many elements.
  int64_t Elements(int64_t elements) const { return (elements + block - 1) / block; }
  bool IsOf(bool in_blocks) const {
    return of == StateOf::kAll || in_blocks == (of == StateOf::kInBlocks);
  }
};

enum class UpdateLaunch : uint8_t { kAdamW, kAdamW8bit };  // of kernels/

// How far a first update takes an element whose clipped gradient has this size, without decay and
// at a learning rate of 1. Self-verification expects moves by it. There is no default: a row of
// the table says which it is.
class UpdateScale {
 public:
  using Rule = double (*)(double gradient, const Plan& plan);
  constexpr UpdateScale(Rule rule) : rule_(rule) {}
  UpdateScale(std::nullptr_t) = delete;
  double operator()(double gradient, const Plan& plan) const { return rule_(gradient, plan); }

 private:
  Rule rule_;
};

struct Optimizer {
  OptimizerKind kind;  // Plan::optimizer
  std::vector<OptimizerState> states;
  UpdateLaunch launch;
  UpdateScale scale;
  int64_t record_bytes;  // of "optimizer.tensors", for each trained tensor
  // Blocks begin at the tensor's first element and hold so many; 1: there are none.
  int64_t block = 1;
  int64_t least_in_blocks = 0;  // a tensor of fewer elements is not in blocks
};

const std::vector<Optimizer>& Optimizers();  // one of each kind
const Optimizer& OptimizerOf(const Plan& plan);

// Whether tensor `i` of the plan's table begins where the one before it ends: it continues a whole
// of several (model::Parameter::packed).
bool ContinuesPack(const Plan& plan, size_t i);

// By index into the plan's table: whether the states of that tensor are in blocks. False of frozen
// ones, of small ones, and of a part of a whole that begins inside a block of it, so that a gap in
// front of it would tear the whole apart.
std::vector<bool> InBlocks(const Plan& plan);

// Memory of all states of a tensor.
int64_t StateBytes(const Optimizer& optimizer, int64_t elements, bool in_blocks);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_OPTIMIZER_STATES_H_
