#include "common/plan/op_lists.h"

#include <algorithm>
#include <iterator>

namespace coxswain::plan {
namespace {

model::Op FusableOp(const model::PlainOp& op) {
  return std::visit([](const auto& plain) { return model::Op(plain); }, op);
}

}  // namespace

AdaptedLinears::AdaptedLinears(const Plan& plan) {
  for (const model::Parameter& parameter : plan.parameters) {
    if (!model::IsLoraA(parameter)) continue;
    ranks_[{parameter.layer, parameter.tensor}] = parameter.rows / parameter.batch;
  }
}

bool AdaptedLinears::Has(const model::LinearOp& linear, int64_t layer) const {
  return std::any_of(linear.members.begin(), linear.members.end(),
                     [&](const auto& member) { return Has(member.weight, layer); });
}

bool AdaptedLinears::Has(int32_t tensor, int64_t layer) const {
  return ranks_.count({static_cast<int32_t>(layer), tensor}) != 0;
}

int64_t AdaptedLinears::RankOf(int32_t tensor, int64_t layer) const {
  return ranks_.at({static_cast<int32_t>(layer), tensor});
}

OpLists PlainOpLists(const model::Architecture& model) {
  OpLists lists;
  for (const model::Block& block : model.blocks) {
    Ops& forward = lists.forward.emplace_back();
    for (const model::PlainOp& op : block.ops) forward.push_back(FusableOp(op));
    Ops& backward = lists.backward.emplace_back();
    std::copy_if(forward.rbegin(), forward.rend(), std::back_inserter(backward),
                 [](const model::Op& op) { return !std::holds_alternative<model::AddOp>(op); });
  }
  lists.forward.push_back({model.outside.norm});
  return lists;
}

}  // namespace coxswain::plan
