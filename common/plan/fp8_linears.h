// Linears of blocks whose products are in FP8, and the formats of their operands
// (kernels/quantize/fp8.h).
#ifndef COXSWAIN_COMMON_PLAN_FP8_LINEARS_H_
#define COXSWAIN_COMMON_PLAN_FP8_LINEARS_H_

#include <cstdint>

#include "common/plan/plan.h"
#include "kernels/quantize/quantized_formats.h"

namespace coxswain::plan {

// How the operands of a recipe share scales, and the formats of values and of gradients.
struct Fp8Formats {
  kernels::Fp8Scaling rows{};  // of activations and of gradients
  kernels::Fp8Scaling weights{};
  kernels::Fp8Format gradient{};  // of outputs; all else is E4M3
};
Fp8Formats FormatsOf(const Fp8& fp8);
const char* NameOf(Fp8Recipe recipe);  // "tensorwise"

// Widths that the products take are multiples of this.
inline constexpr int64_t kFp8Width = 16;

// Whether the products of a linear are in FP8: neither excluded nor of another width.
bool InFp8(const Plan& plan, const model::LinearOp& linear, int64_t layer);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_FP8_LINEARS_H_
