// What a warpgroup makes of the products S^T and dP^T of its 64 keys, as rows, and 64 packed rows
// of queries (hopper_tiles.cuh): P^T = exp(S^T - lse), dS^T = P^T (dP^T - D), and the mask of both.
#ifndef COXSWAIN_KERNELS_CUDA_ATTENTION_TRANSPOSED_SCORES_CUH_
#define COXSWAIN_KERNELS_CUDA_ATTENTION_TRANSPOSED_SCORES_CUH_

#include "kernels/cuda/attention/hopper_products.cuh"

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

namespace coxswain::kernels::cuda {

// Calls fn(n, low, high) for each two neighbours, sums n and n + 1, of a lane's part of [64 keys,
// 64 rows]: `low` and `high` are the statistics of their rows, of_rows those of all.
template <typename Fn>
__device__ __forceinline__ void ForEachPair(const float2* of_rows, const Fn& fn) {
  const int lane_column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float4 of = *reinterpret_cast<const float4*>(&of_rows[j * 8 + lane_column]);
#pragma unroll
    for (int h = 0; h < 2; ++h) fn(4 * j + 2 * h, float2{of.x, of.y}, float2{of.z, of.w});
  }
}

// Dot products -> the probabilities, packed, and in `s` times the slopes of their scores. An
// element of column c is of the row whose statistics are of_rows[c].
template <bool kSoftcap>
__device__ __forceinline__ void Probabilities(const HopperParams& p, const float2* of_rows,
                                              float (&s)[32], uint32_t (&packed)[4][4]) {
  ForEachPair(of_rows, [&](int n, float2 of_low, float2 of_high) {
    const FlashProbability low = ProbabilityOf<kSoftcap>(p, s[n], of_low.x);
    const FlashProbability high = ProbabilityOf<kSoftcap>(p, s[n + 1], of_high.x);
    packed[n / 8][n / 2 % 4] = PackPair(low.value, high.value);
    s[n] = kSoftcap ? low.value * low.slope : low.value;
    s[n + 1] = kSoftcap ? high.value * high.slope : high.value;
  });
}
// Of keys from first_key on and rows from `token` on, bit n: the key does not see the row.
__device__ __forceinline__ uint32_t Hidden(const HopperParams& p, int token, int first_key) {
  uint32_t hidden = 0;
  const int key = first_key + LaneRow(0, 0);
  ForEachSum<32>([&](int n, int h, int column) {
    if (!p.Visible(token + TokenOfRow(p, column), key + 8 * h)) hidden |= 1u << n;
  });
  return hidden;
}
__device__ __forceinline__ void Hide(uint32_t hidden, uint32_t (&packed)[4][4]) {
#pragma unroll
  for (int n = 0; n < 32; n += 2) {
    uint32_t& pair = packed[n / 8][n % 8 / 2];
    if (hidden >> n & 1) pair &= 0xffff0000u;
    if (hidden >> n & 2) pair &= 0x0000ffffu;
  }
}

// dP^T and the probabilities -> dS^T.
__device__ __forceinline__ void ScoreGradient(const float2* of_rows, const float (&dp)[32],
                                              float (&s)[32]) {
  ForEachPair(of_rows, [&](int n, float2 low, float2 high) {
    s[n] *= dp[n] - low.y;
    s[n + 1] *= dp[n + 1] - high.y;
  });
}

}  // namespace coxswain::kernels::cuda

#endif

#endif  // COXSWAIN_KERNELS_CUDA_ATTENTION_TRANSPOSED_SCORES_CUH_
