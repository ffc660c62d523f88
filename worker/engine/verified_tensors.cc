#include "worker/engine/verified_tensors.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace coxswain::engine {
namespace {

using model::Parameter;
using model::Role;

// The role of the tensor that an adapter is of; of any other its own.
Role BaseOf(Role role) {
  constexpr uint32_t kBits = static_cast<uint32_t>(Role::kLoraA) |
                             static_cast<uint32_t>(Role::kLoraB) |
                             static_cast<uint32_t>(Role::kLoraMagnitude);
  return static_cast<Role>(static_cast<uint32_t>(role) & ~kBits);
}

bool ActsThroughAttention(Role role) {
  constexpr Role kQueriesAndKeys[] = {Role::kQ,     Role::kK,     Role::kQBias,
                                      Role::kKBias, Role::kQNorm, Role::kKNorm};
  return std::find(std::begin(kQueriesAndKeys), std::end(kQueriesAndKeys), BaseOf(role)) !=
         std::end(kQueriesAndKeys);
}

// The factor of an adapter that does not begin at zero.
bool WaitsForFactor(Role role) {
  return (model::IsLoraA(role) || model::IsLoraB(role)) && !model::BeginsAtZero(role);
}

auto Order(const Parameter& parameter) {
  return std::tuple{parameter.group, WaitsForFactor(parameter.role),
                    model::BeginsAtZero(parameter.role), model::IsMagnitude(parameter.role)};
}

}  // namespace

std::vector<VerifiedTensor> MakeVerifiedTensors(const plan::Plan& plan) {
  const std::vector<Parameter>& table = plan.parameters;
  std::vector<VerifiedTensor> tensors;
  for (size_t i = 0; i < table.size(); ++i) {
    if (!table[i].trainable()) continue;
    VerifiedTensor tensor;
    tensor.name = table[i].name;
    tensor.parameter = i;
    tensor.needs_gradient = table[i].role != Role::kKBias;
    tensor.needs_attention = ActsThroughAttention(table[i].role);
    tensors.push_back(std::move(tensor));
  }
  std::stable_sort(tensors.begin(), tensors.end(),
                   [&](const VerifiedTensor& a, const VerifiedTensor& b) {
                     return Order(table[a.parameter]) < Order(table[b.parameter]);
                   });
  std::map<std::pair<Role, int32_t>, size_t> begin_at_zero;  // by base and layer
  for (size_t t = 0; t < tensors.size(); ++t) {
    const Parameter& parameter = table[tensors[t].parameter];
    if (!model::BeginsAtZero(parameter.role)) continue;
    begin_at_zero[{BaseOf(parameter.role), parameter.layer}] = t;
  }
  for (VerifiedTensor& tensor : tensors) {
    const Parameter& parameter = table[tensor.parameter];
    if (!WaitsForFactor(parameter.role)) continue;
    const auto factor = begin_at_zero.find({BaseOf(parameter.role), parameter.layer});
    if (factor != begin_at_zero.end()) tensor.zero_factor = factor->second;
  }
  return tensors;
}

}  // namespace coxswain::engine
