// An AdamW update of a chunk of a tensor by a block (kernels/adamw.h has the formulas).
#ifndef COXSWAIN_KERNELS_CUDA_ADAMW_CUH_
#define COXSWAIN_KERNELS_CUDA_ADAMW_CUH_

#include <cstdint>
#include <type_traits>

#include "kernels/adamw.h"
#include "kernels/cuda/tensor_list.cuh"
#include "kernels/cuda/vector.cuh"
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

// What a block works on.
struct AdamWChunk {
  AdamWTensor tensor;
  AdamWCoefficients coefficients;
  int64_t begin, end;  // elements of the tensor
  // In shared memory with the rest: read where it is used, so that the keys of Philox's rounds are
  // not kept in registers from group to group.
  uint32_t key[2], state_key[2];
  uint32_t step;
};

// Chunk `index` of the tensor. By one thread.
__device__ __forceinline__ void MakeChunk(const OptimizerScalars& scalars, const UpdateDraws& draws,
                                          const AdamWTensor& tensor, int64_t index,
                                          AdamWChunk* chunk) {
  for (int i = 0; i < 2; ++i) {
    chunk->key[i] = draws.key[i];
    chunk->state_key[i] = draws.state_key[i];
  }
  chunk->step = draws.step == nullptr ? 0 : *draws.step;
  chunk->tensor = tensor;
  chunk->coefficients = MakeCoefficients(scalars, chunk->tensor);
  const ChunkRange range(index, chunk->tensor.n);
  chunk->begin = range.begin;
  chunk->end = range.end;
}

__device__ __forceinline__ void UpdateElement(const AdamWCoefficients& c, float g, float& x,
                                              float& m, float& v) {
  const float gradient = g * c.clip;
  m = c.beta1 * m + c.one_minus_beta1 * gradient;
  v = c.beta2 * v + c.one_minus_beta2 * (gradient * gradient);
  const float denominator = sqrtf(v) * c.root_scale + c.eps;
  // Decay and step are subtracted together: 1 - decay would lose most bits of a small decay.
  x -= c.decay * x + c.step_size * (m / denominator);
}

// Block `number` of the draws for a parameter.
__device__ __forceinline__ PhiloxWords Draw(const AdamWChunk& chunk, const uint32_t (&key)[2],
                                            int64_t number) {
  return Philox({{static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32),
                  chunk.tensor.index, chunk.step}},
                key[0], key[1]);
}

// A bfloat16 neighbour of x by a draw of 16 bits. NaN stays NaN: a carry must not walk through its
// payload.
__device__ __forceinline__ float RoundStochastically(float x, uint32_t random) {
  const uint32_t bits = (__float_as_uint(x) + random) & 0xffff0000u;
  return isnan(x) ? x : __uint_as_float(bits);
}

// Weights: element e takes half word e mod 8 of its Philox block, the low half of word 0 first.
template <int kSize>
__device__ __forceinline__ void RoundWeights(const AdamWChunk& chunk, int64_t element,
                                             float (&value)[kSize]) {
  const PhiloxWords words = Draw(chunk, chunk.key, element / 8);
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    const int half = static_cast<int>(element % 8) + i;
    const uint32_t low = half < 2 ? words.word[0] : words.word[1];
    const uint32_t high = half < 6 ? words.word[2] : words.word[3];
    const uint32_t random = ((half < 4 ? low : high) >> (half % 2 * 16)) & 0xffffu;
    value[i] = RoundStochastically(value[i], random);
  }
}

// States: element e takes word e mod 4 of its Philox block, the low half for m.
template <int kSize>
__device__ __forceinline__ void RoundStates(const AdamWChunk& chunk, int64_t element,
                                            float (&m)[kSize], float (&v)[kSize]) {
  const PhiloxWords words = Draw(chunk, chunk.state_key, element / 4);
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

// Stores updated values as p's type. P: type of p; kMaster: x is the float32 master of elements
// [i, i + kSize).
template <typename P, bool kMaster, int kSize, typename X>
__device__ __forceinline__ void StoreValues(const AdamWChunk& chunk, int64_t i, X& x) {
  const AdamWTensor& t = chunk.tensor;
  if constexpr (kMaster) {
    x.StoreStreaming(t.master + i);
  } else if constexpr (sizeof(P) == 2) {
    RoundWeights(chunk, t.begin + i, x.value);
  }
  Vector<P, kSize> rounded;
#pragma unroll
  for (int j = 0; j < kSize; ++j) rounded.value[j] = x.value[j];
  rounded.StoreStreaming(static_cast<P*>(t.p) + i);
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

// Updates elements [i, i + kSize). S: type of the states.
template <typename P, typename G, typename S, bool kMaster, int kSize>
__device__ __forceinline__ void UpdateGroup(const AdamWChunk& chunk, int64_t i) {
  const AdamWTensor& t = chunk.tensor;
  const AdamWCoefficients& c = chunk.coefficients;
  S* m = static_cast<S*>(t.m) + i;
  S* v = static_cast<S*>(t.v) + i;
  Vector<S, kSize> first, second;
  Vector<AdamWValue<P, kMaster>, kSize> x;
  Vector<G, kSize> g;
  g.LoadStreaming(static_cast<const G*>(t.g) + i);
  first.LoadStreaming(m);
  second.LoadStreaming(v);
  x.LoadStreaming(ValuesOf<P, kMaster>(t) + i);
#pragma unroll
  for (int j = 0; j < kSize; ++j) {
    UpdateElement(c, g.value[j], x.value[j], first.value[j], second.value[j]);
  }
  if constexpr (sizeof(S) == 2) {
    RoundStates(chunk, t.begin + i, first.value, second.value);
  }
  first.StoreStreaming(m);
  second.StoreStreaming(v);
  StoreValues<P, kMaster, kSize>(chunk, i, x);
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
__device__ __forceinline__ void UpdateChunk(const AdamWChunk& chunk) {
  int64_t done = chunk.begin;
  if (IsAligned(chunk.tensor)) {
    done += (chunk.end - chunk.begin) / kAdamWGroup * kAdamWGroup;
    for (int64_t i = chunk.begin + int64_t{threadIdx.x} * kAdamWGroup; i < done;
         i += kAdamWThreads * kAdamWGroup) {
      UpdateGroup<P, G, S, kMaster, kAdamWGroup>(chunk, i);
    }
  }
  for (int64_t i = done + threadIdx.x; i < chunk.end; i += kAdamWThreads) {
    UpdateGroup<P, G, S, kMaster, 1>(chunk, i);
  }
}

template <typename G, typename S>
__device__ __forceinline__ void UpdateChunkOf(const AdamWChunk& chunk) {
  if (chunk.tensor.p_dtype == DType::kFloat32) {
    UpdateChunk<float, G, S, false>(chunk);
  } else if (chunk.tensor.master != nullptr) {
    UpdateChunk<bf16, G, S, true>(chunk);
  } else {
    UpdateChunk<bf16, G, S, false>(chunk);
  }
}

// A chunk of a tensor whose states are of type S.
template <typename S>
__device__ __forceinline__ void UpdateChunkOf(const AdamWChunk& chunk) {
  if (chunk.tensor.g_dtype == DType::kFloat32) {
    UpdateChunkOf<float, S>(chunk);
  } else {
    UpdateChunkOf<bf16, S>(chunk);
  }
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_ADAMW_CUH_
