// An AdamW update of a chunk of a tensor by a block (kernels/optimizer/adamw.h has the formulas).
#ifndef COXSWAIN_KERNELS_CUDA_OPTIMIZER_ADAMW_CUH_
#define COXSWAIN_KERNELS_CUDA_OPTIMIZER_ADAMW_CUH_

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/activations/approximate.cuh"
#include "kernels/cuda/tensor_list.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/optimizer/adamw.h"
#include "kernels/philox.h"

namespace coxswain::kernels::cuda {

inline constexpr int kAdamWThreads = 256;
inline constexpr int kAdamWGroup = 4;  // neighbouring elements of a thread

struct AdamWCoefficients {
  float decay;  // lr_j wd
  float clip;
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float step_size;   // lr_j / (1 - b1^t)
  float root_scale;  // 1 / sqrt(1 - b2^t)
  float eps;
};

// base^exponent by squaring: at most 2 log2(exponent) roundings.
__device__ inline double Power(double base, int64_t exponent) {
  double power = 1.0;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 == 1) power *= base;
  }
  return power;
}

__device__ inline AdamWCoefficients MakeCoefficients(const OptimizerScalars& s,
                                                     const AdamWTensor& tensor) {
  const int64_t t = s.applied_updates + 1;
  const double lr = s.lr * tensor.lr_scale;
  AdamWCoefficients c;
  c.decay = static_cast<float>(lr * tensor.weight_decay);
  c.clip = static_cast<float>(s.clip_factor);
  c.beta1 = static_cast<float>(s.beta1);
  c.one_minus_beta1 = static_cast<float>(1.0 - s.beta1);
  c.beta2 = static_cast<float>(s.beta2);
  c.one_minus_beta2 = static_cast<float>(1.0 - s.beta2);
  c.step_size = static_cast<float>(lr / (1.0 - Power(s.beta1, t)));
  c.root_scale = static_cast<float>(1.0 / sqrt(1.0 - Power(s.beta2, t)));
  c.eps = static_cast<float>(s.eps);
  return c;
}

// A kernel's parameter.
struct AdamWDraws {
  PhiloxKeys weights, states;
  const uint32_t* step;  // null: 0
};
inline AdamWDraws MakeDraws(const UpdateDraws& draws) {
  return {.weights = MakePhiloxKeys(draws.key[0], draws.key[1]),
          .states = MakePhiloxKeys(draws.state_key[0], draws.state_key[1]),
          .step = draws.step};
}

// What a block works on, in shared memory.
struct AdamWChunk {
  AdamWTensor tensor;
  AdamWCoefficients coefficients;
  int64_t begin, end;  // elements of the tensor
  uint32_t step;
};

// Chunk `index` of the tensor, but for the coefficients. By one thread.
__device__ __forceinline__ void PlaceChunk(const AdamWDraws& draws, const AdamWTensor& tensor,
                                           int64_t index, AdamWChunk* chunk) {
  chunk->step = draws.step == nullptr ? 0 : *draws.step;
  chunk->tensor = tensor;
  const ChunkRange range(index, chunk->tensor.n);
  chunk->begin = range.begin;
  chunk->end = range.end;
}

// kApproximate: root and quotient to 2 and 3 units in the last place, in a third of the
// instructions and without a branch.
template <bool kApproximate = false>
__device__ __forceinline__ void UpdateElement(const AdamWCoefficients& c, float g, float& x,
                                              float& m, float& v) {
  const float gradient = g * c.clip;
  m = c.beta1 * m + c.one_minus_beta1 * gradient;
  v = c.beta2 * v + c.one_minus_beta2 * (gradient * gradient);
  const float root = kApproximate ? SquareRoot(v) : sqrtf(v);
  const float denominator = root * c.root_scale + c.eps;
  const float direction = kApproximate ? m * Reciprocal(denominator) : m / denominator;
  // Decay and step are subtracted together: 1 - decay would lose most bits of a small decay.
  x -= c.decay * x + c.step_size * direction;
}

// Block `number` of the draws for a parameter.
__device__ __forceinline__ PhiloxWords Draw(const AdamWChunk& chunk, const PhiloxKeys& keys,
                                            int64_t number) {
  return Philox({{static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32),
                  chunk.tensor.index, chunk.step}},
                keys);
}

// A bfloat16 neighbour of x by a draw of 16 bits. NaN stays NaN: a carry must not walk through its
// payload.
__device__ __forceinline__ float RoundStochastically(float x, uint32_t random) {
  const uint32_t bits = (__float_as_uint(x) + random) & 0xffff0000u;
  return isnan(x) ? x : __uint_as_float(bits);
}

// Weights: element e takes half word e mod 8 of its Philox block, the low half of word 0 first.
template <int kSize>
__device__ __forceinline__ void RoundWeights(const AdamWChunk& chunk, const PhiloxKeys& keys,
                                             int64_t element, float (&value)[kSize]) {
  const PhiloxWords words = Draw(chunk, keys, element / 8);
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    const int half = static_cast<int>(element % 8) + i;
    const uint32_t low = half < 2 ? words.word[0] : words.word[1];
    const uint32_t high = half < 6 ? words.word[2] : words.word[3];
    const uint32_t random = ((half < 4 ? low : high) >> (half % 2 * 16)) & 0xffffu;
    value[i] = RoundStochastically(value[i], random);
  }
}

// The same of two groups of a lane, where lanes 2 i and 2 i + 1 hold the halves of a Philox block
// of either: each draws one of them and gives the other lane its half. By all lanes of a warp.
__device__ __forceinline__ void RoundWeightPairs(const AdamWChunk& chunk, const PhiloxKeys& keys,
                                                 int64_t element, int64_t stride, float (&first)[4],
                                                 float (&second)[4]) {
  const bool odd = threadIdx.x % 2 != 0;
  const PhiloxWords words = Draw(chunk, keys, (element + (odd ? stride : 0)) / 8);
  uint32_t kept[2], given[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    kept[i] = odd ? words.word[2 + i] : words.word[i];
    given[i] = __shfl_xor_sync(~0u, odd ? words.word[i] : words.word[2 + i], 1);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t of_first = odd ? given[i / 2] : kept[i / 2];
    const uint32_t of_second = odd ? kept[i / 2] : given[i / 2];
    const int shift = i % 2 * 16;
    first[i] = RoundStochastically(first[i], (of_first >> shift) & 0xffffu);
    second[i] = RoundStochastically(second[i], (of_second >> shift) & 0xffffu);
  }
}

// States: element e takes word e mod 4 of its Philox block, the low half for m.
template <int kSize>
__device__ __forceinline__ void RoundStates(const AdamWChunk& chunk, const PhiloxKeys& keys,
                                            int64_t element, float (&m)[kSize], float (&v)[kSize]) {
  const PhiloxWords words = Draw(chunk, keys, element / 4);
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    const int place = static_cast<int>(element % 4) + i;
    const uint32_t low = place == 0 ? words.word[0] : words.word[1];
    const uint32_t high = place == 2 ? words.word[2] : words.word[3];
    const uint32_t random = place < 2 ? low : high;
    m[i] = RoundStochastically(m[i], random & 0xffffu);
    v[i] = RoundStochastically(v[i], random >> 16);
  }
}

// Whether updated values are rounded stochastically. P: type of p; kMaster: a float32 master is
// updated, of which p is a copy.
template <typename P, bool kMaster>
inline constexpr bool kDrawn = sizeof(P) == 2 && !kMaster;

// Stores updated values of kGroups groups, `stride` elements apart, as p's type, and the master.
template <typename P, bool kMaster, int kSize, int kGroups, typename X>
__device__ __forceinline__ void StoreValues(const AdamWChunk& chunk, const PhiloxKeys& keys,
                                            int64_t i, int64_t stride, X (&x)[kGroups]) {
  const AdamWTensor& t = chunk.tensor;
  if constexpr (kDrawn<P, kMaster>) {
    if constexpr (kGroups == 2) {
      RoundWeightPairs(chunk, keys, t.begin + i, stride, x[0].value, x[1].value);
    } else {
      RoundWeights(chunk, keys, t.begin + i, x[0].value);
    }
  }
#pragma unroll
  for (int k = 0; k < kGroups; ++k) {
    if constexpr (kMaster) x[k].StoreStreaming(t.master + i + k * stride);
    Vector<P, kSize> rounded;
#pragma unroll
    for (int j = 0; j < kSize; ++j) rounded.value[j] = x[k].value[j];
    rounded.StoreStreaming(static_cast<P*>(t.p) + i + k * stride);
  }
}

// The type of what is updated, and where it lies.
template <typename P, bool kMaster>
using AdamWValue = std::conditional_t<kMaster, float, P>;
template <typename P, bool kMaster>
__device__ __forceinline__ const AdamWValue<P, kMaster>* ValuesOf(const AdamWTensor& t) {
  if constexpr (kMaster) {
    return t.master;
  } else {
    return static_cast<const P*>(t.p);
  }
}

// Updates kGroups groups of kSize elements, the first at i. S: type of the states.
template <typename P, typename G, typename S, bool kMaster, int kSize, int kGroups>
__device__ __forceinline__ void UpdateGroups(const AdamWChunk& chunk, const AdamWDraws& draws,
                                             int64_t i) {
  constexpr int64_t kStride = kAdamWThreads * kSize;
  const AdamWTensor& t = chunk.tensor;
  S* m = static_cast<S*>(t.m) + i;
  S* v = static_cast<S*>(t.v) + i;
  Vector<S, kSize> first[kGroups], second[kGroups];
  Vector<AdamWValue<P, kMaster>, kSize> x[kGroups];
  Vector<G, kSize> g[kGroups];
#pragma unroll
  for (int k = 0; k < kGroups; ++k) {
    g[k].LoadStreaming(static_cast<const G*>(t.g) + i + k * kStride);
    first[k].LoadStreaming(m + k * kStride);
    second[k].LoadStreaming(v + k * kStride);
    x[k].LoadStreaming(ValuesOf<P, kMaster>(t) + i + k * kStride);
  }
#pragma unroll
  for (int k = 0; k < kGroups; ++k) {
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      UpdateElement<sizeof(S) == 2>(chunk.coefficients, g[k].value[j], x[k].value[j],
                                    first[k].value[j], second[k].value[j]);
    }
    if constexpr (sizeof(S) == 2) {
      RoundStates(chunk, draws.states, t.begin + i + k * kStride, first[k].value, second[k].value);
    }
    first[k].StoreStreaming(m + k * kStride);
    second[k].StoreStreaming(v + k * kStride);
  }
  StoreValues<P, kMaster, kSize>(chunk, draws.weights, i, kStride, x);
}

// Chunks begin at multiples of kTensorChunk: the base pointers decide, and a group of elements must
// not straddle two Philox blocks.
__device__ __forceinline__ bool IsAligned(const AdamWTensor& t) {
  const uintptr_t all = reinterpret_cast<uintptr_t>(t.p) | reinterpret_cast<uintptr_t>(t.master) |
                        reinterpret_cast<uintptr_t>(t.g) | reinterpret_cast<uintptr_t>(t.m) |
                        reinterpret_cast<uintptr_t>(t.v);
  return all % 16 == 0 && t.begin % kAdamWGroup == 0;
}

template <typename P, typename G, typename S, bool kMaster>
__device__ __forceinline__ void UpdateChunk(const AdamWChunk& chunk, const AdamWDraws& draws) {
  constexpr int64_t kRow = kAdamWThreads * kAdamWGroup;
  int64_t done = chunk.begin;
  if (IsAligned(chunk.tensor)) {
    const int64_t end = done + (chunk.end - chunk.begin) / kAdamWGroup * kAdamWGroup;
    const int64_t own = int64_t{threadIdx.x} * kAdamWGroup;
    if constexpr (kDrawn<P, kMaster>) {
      if (chunk.tensor.begin % (2 * kAdamWGroup) == 0) {
        for (; done + 2 * kRow <= end; done += 2 * kRow) {
          UpdateGroups<P, G, S, kMaster, kAdamWGroup, 2>(chunk, draws, done + own);
        }
      }
    }
    for (int64_t i = done + own; i < end; i += kRow) {
      UpdateGroups<P, G, S, kMaster, kAdamWGroup, 1>(chunk, draws, i);
    }
    done = end;
  }
  for (int64_t i = done + threadIdx.x; i < chunk.end; i += kAdamWThreads) {
    UpdateGroups<P, G, S, kMaster, 1, 1>(chunk, draws, i);
  }
}

template <typename G, typename S>
__device__ __forceinline__ void UpdateChunkOf(const AdamWChunk& chunk, const AdamWDraws& draws) {
  if (chunk.tensor.p_dtype == DType::kFloat32) {
    UpdateChunk<float, G, S, false>(chunk, draws);
  } else if (chunk.tensor.master != nullptr) {
    UpdateChunk<bf16, G, S, true>(chunk, draws);
  } else {
    UpdateChunk<bf16, G, S, false>(chunk, draws);
  }
}

// A chunk of a tensor whose states are of type S.
template <typename S>
__device__ __forceinline__ void UpdateChunkOf(const AdamWChunk& chunk, const AdamWDraws& draws) {
  if (chunk.tensor.g_dtype == DType::kFloat32) {
    UpdateChunkOf<float, S>(chunk, draws);
  } else {
    UpdateChunkOf<bf16, S>(chunk, draws);
  }
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_OPTIMIZER_ADAMW_CUH_
