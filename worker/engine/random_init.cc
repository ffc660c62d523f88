#include "worker/engine/random_init.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/philox.h"
#include "worker/engine/weights.h"

namespace coxswain::engine {
namespace {

constexpr double kStandardDeviation = 0.02;

std::array<uint32_t, 4> Draw(uint64_t seed, RandomPurpose purpose, const plan::Parameter& parameter,
                             uint64_t block) {
  return Philox4x32(
      {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
       static_cast<uint32_t>(parameter.role), static_cast<uint32_t>(parameter.layer + 1)},
      PhiloxKey(seed, purpose));
}

// Source: Box and Muller, "A note on the generation of random normal deviates", 1958.
double Normal(uint32_t radius_bits, uint32_t angle_bits, bool second) {
  const double u = 1.0 - static_cast<double>(PhiloxUniform(radius_bits));  // (0, 1]
  const double angle = 2.0 * M_PI * static_cast<double>(PhiloxUniform(angle_bits));
  return std::sqrt(-2.0 * std::log(u)) * (second ? std::sin(angle) : std::cos(angle));
}

bool IsNorm(plan::Role role) {
  return role == plan::Role::kInputNorm || role == plan::Role::kPostAttentionNorm ||
         role == plan::Role::kFinalNorm || role == plan::Role::kQNorm || role == plan::Role::kKNorm;
}

}  // namespace

void RandomInit(uint64_t seed, const plan::Parameter& parameter, std::vector<float>* values) {
  const bool lora_a = IsLoraA(parameter.role);
  if (IsNorm(parameter.role)) {
    std::fill(values->begin(), values->end(), 1.0f);
    return;
  }
  if ((IsAdapter(parameter.role) && !lora_a) || (!lora_a && parameter.cols == 1)) {
    std::fill(values->begin(), values->end(), 0.0f);
    return;
  }
  const double bound = 1.0 / std::sqrt(static_cast<double>(parameter.cols));
  for (size_t i = 0; i < values->size(); i += 4) {
    const std::array<uint32_t, 4> words = Draw(
        seed, lora_a ? RandomPurpose::kAdapterInit : RandomPurpose::kWeightInit, parameter, i / 4);
    for (size_t j = 0; j < 4 && i + j < values->size(); ++j) {
      const double value =
          lora_a ? bound * (2.0 * static_cast<double>(PhiloxUniform(words[j])) - 1.0)
                 : kStandardDeviation * Normal(words[j / 2 * 2], words[j / 2 * 2 + 1], j % 2 == 1);
      (*values)[i + j] = static_cast<float>(value);
    }
  }
}

}  // namespace coxswain::engine
