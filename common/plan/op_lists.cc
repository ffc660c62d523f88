#include "common/plan/op_lists.h"

#include <algorithm>
#include <iterator>

#include "common/model/family.h"

namespace coxswain::plan {

AdaptedLinears::AdaptedLinears(const Plan& plan) {
  for (const model::Parameter& parameter : plan.parameters) {
    if (!model::IsLoraA(parameter.role)) continue;
    const auto bits = static_cast<uint32_t>(parameter.role);
    const auto flag = static_cast<uint32_t>(model::Role::kLoraA);
    linears_.insert({static_cast<model::Role>(bits & ~flag), parameter.layer});
  }
}

bool AdaptedLinears::Has(const model::LinearOp& linear, int64_t layer) const {
  return std::any_of(linear.members.begin(), linear.members.end(), [&](const auto& member) {
    return linears_.count({member.weight, static_cast<int32_t>(layer)}) != 0;
  });
}

OpLists PlainOpLists(const model::ModelConfig& config) {
  OpLists lists;
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    lists.forward.push_back(model::BlockOf(config, layer).ops);
    Ops& backward = lists.backward.emplace_back();
    std::copy_if(lists.forward.back().rbegin(), lists.forward.back().rend(),
                 std::back_inserter(backward),
                 [](const model::Op& op) { return !std::holds_alternative<model::AddOp>(op); });
  }
  lists.forward.push_back({model::OutsideOf(config).norm});
  return lists;
}

}  // namespace coxswain::plan
