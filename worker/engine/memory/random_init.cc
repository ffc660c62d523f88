#include "worker/engine/memory/random_init.h"

#include <array>
#include <cmath>

#include "common/philox.h"

namespace coxswain::engine {
namespace {

constexpr double kStandardDeviation = 0.02;

}  // namespace

kernels::RandomFillArgs RandomInit(uint64_t seed, const model::Parameter& parameter,
                                   const model::ModelConfig& model) {
  const bool adapter = model::IsAdapter(parameter);
  kernels::RandomFillArgs fill;
  if (model::IsBase(parameter, model::Kind::kNorm)) {
    fill.value = model.norm_weights_from_one ? 0.0 : 1.0;
    return fill;
  }
  const bool matrix = adapter || parameter.cols > 1;
  if (!matrix || model::BeginsAtZero(parameter) || model::IsMagnitude(parameter)) {
    return fill;
  }
  fill.kind = kernels::RandomFillKind::kNormal;
  fill.value = adapter ? 1.0 : kStandardDeviation;  // B of an embedding
  if (model::IsLoraA(parameter)) {
    fill.kind = kernels::RandomFillKind::kUniform;
    fill.value = 1.0 / std::sqrt(static_cast<double>(parameter.cols));
  }
  const std::array<uint32_t, 2> key =
      PhiloxKey(seed, adapter ? RandomPurpose::kAdapterInit : RandomPurpose::kWeightInit);
  fill.key[0] = key[0];
  fill.key[1] = key[1];
  fill.counter[0] =
      static_cast<uint32_t>(parameter.tensor) << 2 | static_cast<uint32_t>(parameter.part);
  fill.counter[1] = static_cast<uint32_t>(parameter.layer + 1);
  return fill;
}

kernels::RandomFillArgs StandIn(const model::Parameter& parameter,
                                const model::ModelConfig& model) {
  kernels::RandomFillArgs fill = RandomInit(0, parameter, model);
  if (model::IsMagnitude(parameter)) fill.value = 1.0;
  return fill;
}

}  // namespace coxswain::engine
