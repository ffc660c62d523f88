// Delayed scaling: the amax of an operand in FP8 (fp8.h) is expected to be twice the largest of its
// last 32 updates, so that its scale is known before it is read. The margin is one bit of exponent,
// which costs no precision but for the smallest numbers; a value beyond it takes the largest code.
// Source: NVIDIA, Transformer Engine, recipe.DelayedScaling (amax_history_len, margin 1,
// amax_compute_algo "max", reduce_amax).
#ifndef COXSWAIN_KERNELS_QUANTIZE_FP8_HISTORY_H_
#define COXSWAIN_KERNELS_QUANTIZE_FP8_HISTORY_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/quantize/quantized_formats.h"
#include "kernels/tensor_records.h"

namespace coxswain::kernels {

inline constexpr float kFp8Margin = 2.0f;

// Lets what was observed of operands join the decision of an update as the elements of gradients do
// (optimizer/global_norm.h): each amax that is no finite number is counted in sums->nonfinite, and
// makes sums->sum_squares NaN.
struct Fp8JudgeObservedArgs {
  int64_t ranks = 0, operands = 0;
  int64_t stride = 0;               // floats from the operands of a rank to those of the next
  const float* observed = nullptr;  // [ranks, operands] (Fp8QuantizeArgs::observed)
  NormSums* sums = nullptr;         // of the gradients of all ranks; device memory
};
void Fp8JudgeObserved(const Fp8JudgeObservedArgs& args, Stream* stream);

// After the decision. With h the history of an operand and o_r what rank r observed of it:
//   unless the update is skipped: h[updates mod 32] = max_r o_r
//   expected = min(2 max_i h[i], the largest float32); 0 where no value was above 0
//   o_r = 0
// Ranks that hold the same observations move alike.
struct Fp8MoveHistoryArgs {
  int64_t ranks = 0, operands = 0;
  int64_t stride = 0;         // floats from the operands of a rank to those of the next
  float* observed = nullptr;  // [ranks, operands]; null: nothing was, `expected` alone is made
  const int64_t* updates = nullptr;  // one, in device memory: applied before this one; read where
  const int32_t* skip = nullptr;     // observed is not null, as this is: not 0: h stays
  float* history = nullptr;          // [operands, kFp8History]
  float* expected = nullptr;         // [operands], overwritten
};
void Fp8MoveHistory(const Fp8MoveHistoryArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_QUANTIZE_FP8_HISTORY_H_
