#include "worker/engine/verify/verified_tensors.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace coxswain::engine {
namespace {

using model::Parameter;

// The factor of an adapter that does not begin at zero.
bool WaitsForFactor(const Parameter& parameter) {
  return (model::IsLoraA(parameter) || model::IsLoraB(parameter)) &&
         !model::BeginsAtZero(parameter);
}

auto Order(const Parameter& parameter) {
  return std::tuple{parameter.group, WaitsForFactor(parameter), model::BeginsAtZero(parameter),
                    model::IsMagnitude(parameter)};
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
    tensor.needs_gradient = table[i].reach != model::Reach::kKeyBias;
    tensor.needs_attention = table[i].reach != model::Reach::kDirect;
    tensors.push_back(std::move(tensor));
  }
  std::stable_sort(tensors.begin(), tensors.end(),
                   [&](const VerifiedTensor& a, const VerifiedTensor& b) {
                     return Order(table[a.parameter]) < Order(table[b.parameter]);
                   });
  std::map<std::pair<int32_t, int32_t>, size_t> begin_at_zero;  // by layer and tensor
  for (size_t t = 0; t < tensors.size(); ++t) {
    const Parameter& parameter = table[tensors[t].parameter];
    if (!model::BeginsAtZero(parameter)) continue;
    begin_at_zero[{parameter.layer, parameter.tensor}] = t;
  }
  for (VerifiedTensor& tensor : tensors) {
    const Parameter& parameter = table[tensor.parameter];
    if (!WaitsForFactor(parameter)) continue;
    const auto factor = begin_at_zero.find({parameter.layer, parameter.tensor});
    if (factor != begin_at_zero.end()) tensor.zero_factor = factor->second;
  }
  return tensors;
}

}  // namespace coxswain::engine
