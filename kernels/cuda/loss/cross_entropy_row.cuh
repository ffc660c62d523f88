// What the kernels of cross_entropy.cu make of a row's logits (kernels/loss/cross_entropy.h has the
// formulas).
//
// Exponentials are taken in base 2 against a reference c = round(max z log2 e):
//   e_v = 2^(z_v log2 e - c), one fused product whose rounding is that of a small number however
//   large the logits;  S = sum e_v;  p_v = e_v / S;  lse = c / log2 e + log S.
// Partial results are (c, S, sum z); they merge by S = sum_i S_i 2^(c_i - c).
#ifndef COXSWAIN_KERNELS_CUDA_LOSS_CROSS_ENTROPY_ROW_CUH_
#define COXSWAIN_KERNELS_CUDA_LOSS_CROSS_ENTROPY_ROW_CUH_

#include "kernels/cuda/activations/approximate.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/loss/cross_entropy.h"

namespace coxswain::kernels::cuda::cross_entropy {

inline constexpr int kThreads = 512;
inline constexpr int kWarps = kThreads / kWarp;
// Below any reference of a row that has a usable logit, and finite when multiplied.
inline constexpr float kLowest = -1e30f;

struct alignas(16) Partial {
  float reference;     // c
  float exponentials;  // S
  float logits;        // sum z, for label smoothing
};
__device__ __forceinline__ Partial Empty() { return {kLowest, 0.0f, 0.0f}; }

// The merge of each group of kLanes neighbours, the same in all of the group.
template <int kLanes = kWarp>
__device__ __forceinline__ Partial LaneMerge(const Partial& mine) {
  Partial all = mine;
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) {
    all.reference = fmaxf(all.reference, __shfl_xor_sync(~0u, all.reference, offset));
  }
  all.exponentials *= Exp2(mine.reference - all.reference);
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) {
    all.exponentials += __shfl_xor_sync(~0u, all.exponentials, offset);
    all.logits += __shfl_xor_sync(~0u, all.logits, offset);
  }
  return all;
}

// The merge of the block's threads, in the first warp only.
__device__ __forceinline__ Partial BlockMerge(const Partial& mine, Partial* warps) {
  const Partial warp = LaneMerge(mine);
  const int lane = threadIdx.x % kWarp;
  if (lane == 0) warps[threadIdx.x / kWarp] = warp;
  __syncthreads();
  if (threadIdx.x >= kWarp) return Empty();
  return LaneMerge(lane < kWarps ? warps[lane] : Empty());
}

// z = k tanh(x / k) = k sign(x) (1 - E) / (1 + E) with E = e^(-2 |x| / k).
struct Softcap {
  float cap, inverse, exponent;  // k, 1 / k, -2 log2(e) / k

  __device__ __forceinline__ explicit Softcap(float k)
      : cap(k), inverse(1.0f / k), exponent(-2.0f * kLog2E / k) {}

  __device__ __forceinline__ float Of(float logit) const {
    const float e = Exp2(fabsf(logit) * exponent);
    return copysignf(cap * ((1.0f - e) * Reciprocal(1.0f + e)), logit);
  }
  // With one reciprocal: of the product of the denominators, which are in [1, 2]. With u = 2^-24, E
  // is within 4 u of ex2 and its argument within 3 u, which move (1 - E) / (1 + E) by up to 2 u and
  // 1.4 u where it is small; ten roundings act where it is near 1: z is off by less than 11 k u.
  __device__ __forceinline__ void Four(float* z) const {
    float e[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) e[i] = Exp2(fabsf(z[i]) * exponent);
    const float ab = (1.0f + e[0]) * (1.0f + e[1]), cd = (1.0f + e[2]) * (1.0f + e[3]);
    const float all = cap * Reciprocal(ab * cd), k_ab = cd * all, k_cd = ab * all;
    z[0] = copysignf((1.0f - e[0]) * ((1.0f + e[1]) * k_ab), z[0]);
    z[1] = copysignf((1.0f - e[1]) * ((1.0f + e[0]) * k_ab), z[1]);
    z[2] = copysignf((1.0f - e[2]) * ((1.0f + e[3]) * k_cd), z[2]);
    z[3] = copysignf((1.0f - e[3]) * ((1.0f + e[2]) * k_cd), z[3]);
  }
};

template <bool kSoftcap>
__device__ __forceinline__ float Cap(float logit, float softcap) {
  if constexpr (kSoftcap) return Softcap(softcap).Of(logit);
  return logit;
}

template <bool kSoftcap, int kSize>
__device__ __forceinline__ void CapAll(float (&z)[kSize], const Softcap& softcap) {
  if constexpr (kSoftcap) {
    constexpr int kFours = kSize / 4 * 4;
#pragma unroll
    for (int i = 0; i < kFours; i += 4) softcap.Four(z + i);
#pragma unroll
    for (int i = kFours; i < kSize; ++i) z[i] = softcap.Of(z[i]);
  }
}

template <int kSize>
__device__ __forceinline__ float MaxOf(const float (&z)[kSize]) {
  float maximum = z[0];
#pragma unroll
  for (int i = 1; i < kSize; ++i) maximum = fmaxf(maximum, z[i]);
  return maximum;
}

// Adds logits whose reference is at most that of `sums`.
template <bool kSmoothing, int kSize>
__device__ __forceinline__ void AddLogits(const float (&z)[kSize], Partial* sums) {
  float exponentials = 0.0f, logits = 0.0f;
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    exponentials += Exp2(fmaf(z[i], kLog2E, -sums->reference));
    if constexpr (kSmoothing) logits += z[i];
  }
  sums->exponentials += exponentials;
  if constexpr (kSmoothing) sums->logits += logits;
}

// dz = e factor - shift, and what the target's own element adds to that.
struct Gradient {
  float of_all, scale, smoothing, shift, z_loss;
  Softcap softcap;
  float reference = 0.0f, factor = 0.0f;  // of the row

  __device__ __forceinline__ explicit Gradient(const CrossEntropyArgs& args)
      : of_all(args.gradient_scale == nullptr ? 0.0f : *args.gradient_scale),
        scale(of_all),
        smoothing(args.spec.label_smoothing),
        shift(scale * smoothing / static_cast<float>(args.spec.vocab)),
        z_loss(args.spec.z_loss),
        softcap(args.spec.softcap) {}

  // Before SetRow.
  __device__ __forceinline__ void SetWeight(const CrossEntropyArgs& args, int64_t row) {
    if (args.row_weights == nullptr) return;
    scale = of_all * args.row_weights[row];
    shift = scale * smoothing / static_cast<float>(args.spec.vocab);
  }

  __device__ __forceinline__ void SetRow(const Partial& row) {
    reference = row.reference;
    factor = scale / row.exponentials;
    if (z_loss == 0.0f) return;
    const float lse = (row.reference + log2f(row.exponentials)) * (1.0f / kLog2E);
    factor *= 1.0f + 2.0f * z_loss * lse;
  }

  __device__ __forceinline__ float Exponential(float z) const {
    return Exp2(fmaf(z, kLog2E, -reference));
  }
  template <bool kSoftcap>
  __device__ __forceinline__ float Slope(float z) const {
    const float t = z * softcap.inverse;
    return kSoftcap ? fmaf(-t, t, 1.0f) : 1.0f;
  }
  template <bool kSoftcap, int kSize>
  __device__ __forceinline__ void Apply(float (&z)[kSize]) const {
    CapAll<kSoftcap>(z, softcap);
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      const float dz = fmaf(Exponential(z[i]), factor, -shift);
      z[i] = kSoftcap ? dz * Slope<kSoftcap>(z[i]) : dz;
    }
  }
  // p_y - 1 cancels: before the rounding to the type of the logits, and with one rounding here.
  template <bool kSoftcap>
  __device__ __forceinline__ float AtTarget(float z) const {
    const float at_target = scale * (1.0f - smoothing);
    const double dz = static_cast<double>(factor) * Exponential(z) - shift - at_target;
    const float rounded = static_cast<float>(dz);
    return kSoftcap ? rounded * Slope<kSoftcap>(z) : rounded;
  }
};

// lse - z_y cancels when logits are large: in double. log S is small: its float is within 8 u.
__device__ __forceinline__ void WriteLosses(const CrossEntropyArgs& args, int64_t row,
                                            const Partial& sums, float z_target) {
  constexpr double kLog2 = 1.0 / static_cast<double>(kLog2E);
  const double lse = sums.reference * kLog2 + static_cast<double>(logf(sums.exponentials));
  const double nll = lse - z_target;
  double loss = nll + args.spec.z_loss * lse * lse;
  if (args.spec.label_smoothing > 0.0f) {
    const float mean = sums.logits / static_cast<float>(args.spec.vocab);
    loss += args.spec.label_smoothing * (static_cast<double>(z_target) - mean);
  }
  args.loss[row] = static_cast<float>(loss);
  if (args.nll != nullptr) args.nll[row] = static_cast<float>(nll);
}

__device__ __forceinline__ bool InVocabulary(const CrossEntropyArgs& args, int32_t target) {
  return target >= 0 && target < args.spec.vocab;
}

// A target outside the vocabulary shows as a NaN loss.
template <typename T, bool kSoftcap>
__device__ __forceinline__ float TargetLogit(const CrossEntropyArgs& args, const T* z,
                                             int32_t target) {
  if (!InVocabulary(args, target)) return nanf("");
  return Cap<kSoftcap>(ToFloat(z[target]), args.spec.softcap);
}

__device__ __forceinline__ void WriteIgnored(const CrossEntropyArgs& args, int64_t row) {
  args.loss[row] = 0.0f;
  if (args.nll != nullptr) args.nll[row] = 0.0f;
}

// Zeros from `column` of a row to the start of the next.
template <typename T>
__device__ __forceinline__ void ZeroFrom(const CrossEntropyArgs& args, int64_t row,
                                         int64_t column) {
  T* dz = static_cast<T*>(args.gradient) + row * args.ld;
  for (int64_t i = column + threadIdx.x; i < args.ld; i += kThreads) dz[i] = FromFloat<T>(0.0f);
}

}  // namespace coxswain::kernels::cuda::cross_entropy

#endif  // COXSWAIN_KERNELS_CUDA_LOSS_CROSS_ENTROPY_ROW_CUH_
