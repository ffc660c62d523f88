// A linear and the add of its output to the stream: the addend of kernels/gemm.h. One product reads
// the stream and writes the next, and no norm behind it adds. An adapted linear's output is not one
// product's; one that adds to what another wrote has an addend already.
#include "common/plan/fusions/fusions.h"

namespace coxswain::plan {
namespace {

int64_t FuseLinearAdd(const Plan& plan, OpLists* lists) {
  const AdaptedLinears adapted(plan);
  int64_t pairs = 0;
  for (int64_t layer = 0; layer < plan.model.num_layers; ++layer) {
    Ops rewritten;
    for (model::Op& op : lists->forward[static_cast<size_t>(layer)]) {
      const auto* add = std::get_if<model::AddOp>(&op);
      const auto* linear =
          rewritten.empty() ? nullptr : std::get_if<model::LinearOp>(&rewritten.back());
      const bool fuses = add != nullptr && linear != nullptr && linear->out == add->branch &&
                         !linear->adds && !adapted.Has(*linear, layer);
      if (fuses) {
        model::LinearAddOp both{*linear, *add};
        rewritten.back() = std::move(both);
        ++pairs;
      } else {
        rewritten.push_back(std::move(op));
      }
    }
    lists->forward[static_cast<size_t>(layer)] = std::move(rewritten);
  }
  return pairs;
}

}  // namespace

const Fusion kLinearAddFusion = {.name = "linear_add", .rewrite = &FuseLinearAdd};

}  // namespace coxswain::plan
