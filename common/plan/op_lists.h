// The ops of the whole model in the order in which they run.
#ifndef COXSWAIN_COMMON_PLAN_OP_LISTS_H_
#define COXSWAIN_COMMON_PLAN_OP_LISTS_H_

#include <map>
#include <utility>
#include <vector>

#include "common/model/block.h"
#include "common/plan/plan.h"

namespace coxswain::plan {

using Ops = std::vector<model::Op>;

struct OpLists {
  std::vector<Ops> forward;   // of each block, then of what follows them: num_layers + 1
  std::vector<Ops> backward;  // of each block, its ops from the last to the first, without adds
};

// The linears, routers and stacks that have an adapter, by layer and tensor.
class AdaptedLinears {
 public:
  explicit AdaptedLinears(const Plan& plan);
  // Of any of the members.
  bool Has(const model::LinearOp& linear, int64_t layer) const;
  bool Has(int32_t tensor, int64_t layer) const;
  // Of a tensor that has one.
  int64_t RankOf(int32_t tensor, int64_t layer) const;

 private:
  std::map<std::pair<int32_t, int32_t>, int64_t> ranks_;
};

// The ops as the family lists them.
OpLists PlainOpLists(const model::Architecture& model);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_OP_LISTS_H_
