// Which operands of products in FP8 have their amax from the kernel that stores them, so that it is
// not looked for (Fp8Recipe::kTensorwise, Fp8QuantizeArgs::amax): what a norm, a gate or an
// activation makes is the x of a linear, and the gradient that its backward writes is that of the
// output of a linear, where no other op writes the same memory in between. Products, rotations and
// attention find none: their consumers look for it. Nor is that of a gradient that DoRA scales
// known.
// And which weights have an amax that is remembered: where a weight has one scale and its codes are
// made at each reading, the first reading after it may have changed finds the amax for the others.
// A function of the plan's lists of ops, fusions included: planner and engine derive the same.
#ifndef COXSWAIN_COMMON_PLAN_BUFFERS_FP8_AMAXES_H_
#define COXSWAIN_COMMON_PLAN_BUFFERS_FP8_AMAXES_H_

#include <cstdint>
#include <map>
#include <vector>

#include "common/plan/plan.h"

namespace coxswain::plan {

inline constexpr int64_t kNoAmax = -1;

// Numbers of amaxes. Of an op that makes them: of what it makes, and of the gradient of its input.
// Of a linear, which reads them: of x, of the gradient of its output, and of its weight.
struct AmaxNumbers {
  int64_t value = kNoAmax, gradient = kNoAmax, weight = kNoAmax;
};

// By the id of an op.
struct Fp8AmaxesOfBlock {
  std::map<int32_t, AmaxNumbers> made, read;

  AmaxNumbers MadeBy(int32_t op) const;
  AmaxNumbers ReadBy(int32_t linear) const;
};

struct Fp8Amaxes {
  std::vector<Fp8AmaxesOfBlock> blocks;
  int64_t final_gradient = kNoAmax;  // of the gradient that the final norm writes
  // Values have the numbers from 0 on, gradients those behind, and weights those behind these.
  int64_t values = 0, gradients = 0, weights = 0;
};
Fp8Amaxes Fp8AmaxesOf(const Plan& plan);

// "fp8.amaxes", one float32 each; none where nothing is known.
std::vector<Buffer> Fp8AmaxRows(const Plan& plan);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_BUFFERS_FP8_AMAXES_H_
