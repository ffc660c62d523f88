// The lists of ops rewritten by the plan's fusions. A function of the plan: planner and engine
// derive the same lists.
#ifndef COXSWAIN_COMMON_PLAN_FUSIONS_FUSED_OPS_H_
#define COXSWAIN_COMMON_PLAN_FUSIONS_FUSED_OPS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/plan/op_lists.h"

namespace coxswain::plan {

// Rules that rewrite the lists of ops where one kernel does the work of two.
struct Fusion {
  std::string_view name;
  // The number of pairs that it replaced.
  int64_t (*rewrite)(const Plan& plan, OpLists* lists) = nullptr;
};

extern const Fusion kLinearRotateFusion, kLinearAddFusion, kAddNormFusion, kGatedLinearFusion,
    kGroupedGatedLinearFusion, kGateDownFusion, kAttentionRotateFusion;

// In the order in which they apply.
const std::vector<Fusion>& Fusions();

// What fusions of an op with the one behind it share: the way through the lists of the blocks.

// Of the first `layers` lists a First and the Next behind it become fuse(first, next, layer), a
// std::optional<model::Op>, where that is something. Returns how many did.
template <typename First, typename Next, typename Fuse>
int64_t FusePairs(int64_t layers, std::vector<Ops>* lists, const Fuse& fuse) {
  int64_t pairs = 0;
  for (int64_t layer = 0; layer < layers; ++layer) {
    Ops& ops = (*lists)[static_cast<size_t>(layer)];
    Ops rewritten;
    for (model::Op& op : ops) {
      const auto* next = std::get_if<Next>(&op);
      const auto* first = rewritten.empty() ? nullptr : std::get_if<First>(&rewritten.back());
      std::optional<model::Op> both;
      if (next != nullptr && first != nullptr) both = fuse(*first, *next, layer);
      if (both.has_value()) {
        rewritten.back() = *std::move(both);
        ++pairs;
      } else {
        rewritten.push_back(std::move(op));
      }
    }
    ops = std::move(rewritten);
  }
  return pairs;
}

// Rewritten by the rules that plan.fusions names.
OpLists OpListsOf(const Plan& plan);

// The names of all rules that rewrite anything in the plan's model.
std::vector<std::string> ApplicableFusions(const Plan& plan);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_FUSIONS_FUSED_OPS_H_
