#include "worker/engine/ops/gradient_sum.h"

#include <array>

#include "common/philox.h"

namespace coxswain::engine {

bool TakesTerms(const Sweep& sweep, const Tensor& weight) {
  return sweep.model.gradient_sum != plan::GradientSum::kNearest && !weight.gradient_slotted &&
         weight.gradient_dtype == kernels::DType::kBFloat16;
}

kernels::GradientSum SumOf(const Sweep& sweep, const Tensor& weight, int64_t part) {
  kernels::GradientSum sum;
  if (!TakesTerms(sweep, weight)) return sum;
  if (sweep.model.gradient_sum == plan::GradientSum::kCompensated) {
    sum.mode = kernels::GradientSumMode::kCompensated;
    sum.companion = weight.companion;
    return sum;
  }
  const std::array<uint32_t, 2> key = PhiloxKey(sweep.model.seed, RandomPurpose::kGradientRounding);
  sum.mode = kernels::GradientSumMode::kStochastic;
  sum.key[0] = key[0];
  sum.key[1] = key[1];
  sum.step = &sweep.buffers.scalars->step;
  sum.bin = sweep.buffers.first_bin;
  sum.part = static_cast<uint32_t>(part);
  sum.number = weight.number;
  return sum;
}

}  // namespace coxswain::engine
