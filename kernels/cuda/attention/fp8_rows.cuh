// What a warpgroup does with its 64 rows and one tile of keys in attention in FP8: products of
// codes, and between them the softmax and codes of probabilities, in the registers of each lane
// (hopper_fp8_forward.cu).
#ifndef COXSWAIN_KERNELS_CUDA_ATTENTION_FP8_ROWS_CUH_
#define COXSWAIN_KERNELS_CUDA_ATTENTION_FP8_ROWS_CUH_

#include <cuda_fp8.h>

#include "kernels/cuda/attention/fp8_attention.cuh"
#include "kernels/cuda/attention/hopper_products.cuh"

namespace coxswain::kernels::cuda::fp8 {

inline constexpr int kKeys = kFp8AttentionKeys;
inline constexpr int kWidth = 128;     // of heads, with zeros behind them
inline constexpr int kStepCodes = 32;  // of a product's k
inline constexpr float kLog2OfProbabilityScale = 8.0f;
static_assert(kFp8ProbabilityScale == 256.0f);

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Of a warpgroup's 64 rows; [2]: of a lane's two.
struct Rows {
  float sums[kWidth / 2];  // in units of value_scale / 256
  uint32_t probabilities[kKeys / kStepCodes][4];
  float maximum[2];  // of scores, as base 2 logarithms
  float total[2];    // of the lane's columns, times 256
  float factor[2];   // of a product of codes without the scale of keys, as base 2 logarithms
  float ratio[2];    // by which older sums shrink, in units of the probabilities' tile
  float value_scale;
};

// Scores of keys from first_key on -> unnormalised probabilities times 256.
template <int kCount>
__device__ __forceinline__ void OnlineSoftmax(const HopperParams& p, const HopperItem& item,
                                              int group, int first_key, float key_scale,
                                              float value_scale, float (&s)[kCount], Rows* rows) {
  if (IsMasked<2 * kCount>(p, item, first_key)) {
    const int tokens[2] = {item.first + TokenOfRow(p, LaneRow(group, 0)),
                           item.first + TokenOfRow(p, LaneRow(group, 1))};
    ForEachSum<kCount>([&](int n, int h, int column) {
      if (!p.Visible(tokens[h], first_key + column)) s[n] = -INFINITY;
    });
  }
  const float scales = rows->value_scale * ReciprocalOfPower(value_scale);
  rows->value_scale = value_scale;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float factor = rows->factor[h] * key_scale;
    float largest = -INFINITY;
#pragma unroll
    for (int n = 2 * h; n < kCount; n += 4) largest = fmaxf(largest, fmaxf(s[n], s[n + 1]));
    const float maximum = fmaxf(rows->maximum[h], QuadMax(largest) * factor);
    // A row that has seen no key yet keeps -infinity, which must not meet itself in a difference.
    const float shift = maximum == -INFINITY ? 0.0f : maximum;
    const float shrink = Exp2(rows->maximum[h] - shift);
    rows->maximum[h] = maximum;
    rows->ratio[h] = shrink * scales;
    float sum = 0.0f;
#pragma unroll
    for (int n = 2 * h; n < kCount; n += 4) {
      s[n] = Exp2(s[n] * factor - (shift - kLog2OfProbabilityScale));
      s[n + 1] = Exp2(s[n + 1] * factor - (shift - kLog2OfProbabilityScale));
      sum += s[n] + s[n + 1];
    }
    rows->total[h] = rows->total[h] * shrink + sum;
  }
}

// Probabilities as codes, where a lane has them.
template <int kSteps>
__device__ __forceinline__ void PackCodes(const float (&s)[16 * kSteps], uint32_t (*codes)[4]) {
  const auto pair = [&](int block, int h) {
    const float2 values = make_float2(s[4 * block + 2 * h], s[4 * block + 2 * h + 1]);
    return static_cast<uint32_t>(__nv_cvt_float2_to_fp8x2(values, __NV_SATFINITE, __NV_E4M3));
  };
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int block = 4 * k + i / 2 * 2;
      codes[k][i] = pair(block, i % 2) | pair(block + 1, i % 2) << 16;
    }
  }
}

// Scores of rows and keys in boxes of codes.
template <int kCount>
__device__ __forceinline__ void MultiplyKeys(float (&s)[kCount], uint64_t q, uint64_t k) {
#pragma unroll
  for (int step = 0; step < kWidth / kStepCodes; ++step) {
    const uint64_t at = static_cast<uint64_t>(step) * kStepAlongK;
    if constexpr (kCount == 64) {
      MultiplyCodes<false>(s, q + at, k + at, step > 0);
    } else {
      MultiplyCodes<false>(s, q + at, k + at, step > 0);
    }
  }
}
template <int kSteps>
__device__ __forceinline__ void MultiplyValues(float (&sums)[kWidth / 2],
                                               const uint32_t (*probabilities)[4], uint64_t v) {
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const uint32_t a[4] = {probabilities[step][0], probabilities[step][1], probabilities[step][2],
                           probabilities[step][3]};
    MultiplyCodes(sums, a, v + static_cast<uint64_t>(step) * kStepAlongK, step > 0);
  }
}
__device__ __forceinline__ void AddProduct(const float (&product)[kWidth / 2],
                                           const float (&ratio)[2], float (&sums)[kWidth / 2]) {
#pragma unroll
  for (int n = 0; n < kWidth / 2; ++n) sums[n] = sums[n] * ratio[n / 2 % 2] + product[n];
}

// What a row ends with, of its largest score as a base 2 logarithm and its sum times 256: the
// factor of its sums without their unit, and lse.
__device__ __forceinline__ RowEnd EndOfCodes(const HopperParams& p, int head, float maximum,
                                             float total) {
  const float sum = total / kFp8ProbabilityScale;
  if (!p.sinks.any()) return {1.0f / total, maximum / kLog2E + logf(sum)};
  const float sink = p.sinks.of(head) * kLog2E, largest = fmaxf(maximum, sink);
  const float shrink = Exp2(maximum - largest);
  const float all = sum * shrink + Exp2(sink - largest);
  return {shrink / (kFp8ProbabilityScale * all), largest / kLog2E + logf(all)};
}

#endif

}  // namespace coxswain::kernels::cuda::fp8

#endif  // COXSWAIN_KERNELS_CUDA_ATTENTION_FP8_ROWS_CUH_
