// Elements of a gradient in bfloat16 and the terms that are added to them (gradient_sum.h).
#ifndef COXSWAIN_KERNELS_CUDA_TENSORS_GRADIENT_SUM_CUH_
#define COXSWAIN_KERNELS_CUDA_TENSORS_GRADIENT_SUM_CUH_

#include <cstdint>

#include "kernels/cuda/vector.cuh"
#include "kernels/philox.h"
#include "kernels/tensors/gradient_sum.h"
#include "kernels/tensors/gradient_sum_element.h"

namespace coxswain::kernels::cuda {

// A kernel's parameter.
struct SumParameter {
  GradientSumMode mode;
  bf16* companion;
  PhiloxKeys keys;
  const uint32_t *step, *bin;
  uint32_t part;
  int64_t number;
};
inline SumParameter MakeSum(const GradientSum& sum) {
  return {.mode = sum.mode,
          .companion = static_cast<bf16*>(sum.companion),
          .keys = MakePhiloxKeys(sum.key[0], sum.key[1]),
          .step = sum.step,
          .bin = sum.bin,
          .part = sum.part,
          .number = sum.number};
}

__device__ __forceinline__ PhiloxWords DrawBlock(const SumParameter& sum, int64_t n) {
  const GradientDraws draws{.bin = sum.bin == nullptr ? 0 : *sum.bin,
                            .step = sum.step == nullptr ? 0 : *sum.step,
                            .part = sum.part};
  return Philox(GradientDrawsCounter(draws, n), sum.keys);
}

// Adds terms to kSize elements from `element` on, which are in one block of draws: `gradient` holds
// them, with zeros where it does not accumulate, and then what is stored to nearest without change.
template <int kSize>
__device__ __forceinline__ void AddTerms(const SumParameter& sum, int64_t element, bool accumulate,
                                         const float (&term)[kSize],
                                         Vector<bf16, kSize>* gradient) {
  if (sum.mode == GradientSumMode::kCompensated) {
    Vector<bf16, kSize> companion = {};
    if (accumulate) companion.Load(sum.companion + element);
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      AddCompensated(term[i], &gradient->value[i], &companion.value[i]);
    }
    companion.Store(sum.companion + element);
    return;
  }
#pragma unroll
  for (int i = 0; i < kSize; ++i) gradient->value[i] += term[i];
  if (sum.mode == GradientSumMode::kNearest) return;
  const int64_t number = sum.number + element;
  const PhiloxWords words = DrawBlock(sum, number / 8);
  // Whole blocks are drawn for without a choice.
  const int first = kSize == 8 ? 0 : static_cast<int>(number % 8);
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    uint32_t draw = DrawOfElement(words, i);
#pragma unroll
    for (int j = i + 1; j < 8 && kSize < 8; ++j)
      draw = first + i == j ? DrawOfElement(words, j) : draw;
    gradient->value[i] = CutToBfloat16(gradient->value[i], draw);
  }
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_TENSORS_GRADIENT_SUM_CUH_
