// AdamW over a list of tensors in one launch (kernels/adamw.h has the formulas).
//
// A block per chunk of kTensorChunk elements, 4 neighbouring elements per thread: 16-byte accesses
// of float32, 8-byte ones of bfloat16. Bytes moved per element, with bfloat16 gradients: 28 with a
// master (read 14, written 14), 26 in float32 without, 22 with stochastic rounding; 2 more with
// float32 gradients. Elements are independent: bitwise deterministic.
#include "kernels/adamw.h"

#include <type_traits>

#include "kernels/cuda/stream.h"
#include "kernels/cuda/tensor_list.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/philox.h"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kGroup = 4;  // elements of a thread

struct Coefficients {
  float decay;  // lr_j wd
  float clip;
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float step_size;   // lr_j / (1 - b1^t)
  float root_scale;  // 1 / sqrt(1 - b2^t)
  float eps;
};

// base^exponent by squaring: at most 2 log2(exponent) roundings.
__device__ double Power(double base, int64_t exponent) {
  double power = 1.0;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 == 1) power *= base;
  }
  return power;
}

__device__ Coefficients MakeCoefficients(const OptimizerScalars& s, const AdamWTensor& tensor) {
  const int64_t t = s.applied_updates + 1;
  const double lr = s.lr * tensor.lr_scale;
  Coefficients c;
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
struct Chunk {
  AdamWTensor tensor;
  Coefficients coefficients;
  int64_t begin, end;  // elements of the tensor
};

// Numbers the random draws of stochastic rounding.
struct Draws {
  uint32_t key[2];
  const uint32_t* step;
};

// Rounds each value to a bfloat16 neighbour. Element e takes half word e mod 8 of its Philox block,
// the low half of word 0 first. NaN stays NaN: a carry must not walk through its payload.
template <int kSize>
__device__ __forceinline__ void RoundStochastically(const Draws& draws, uint32_t index,
                                                    int64_t element, float (&value)[kSize]) {
  const int64_t block = element / 8;
  const PhiloxWords words = Philox(
      {{static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), index, *draws.step}},
      draws.key[0], draws.key[1]);
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    const int half = static_cast<int>(element % 8) + i;
    const uint32_t low = half < 2 ? words.word[0] : words.word[1];
    const uint32_t high = half < 6 ? words.word[2] : words.word[3];
    const uint32_t random = ((half < 4 ? low : high) >> (half % 2 * 16)) & 0xffffu;
    const uint32_t bits = (__float_as_uint(value[i]) + random) & 0xffff0000u;
    value[i] = isnan(value[i]) ? value[i] : __uint_as_float(bits);
  }
}

// Updates elements [i, i + kSize). P: type of p; kMaster: the float32 master is what is updated.
template <typename P, typename G, bool kMaster, int kSize>
__device__ __forceinline__ void Update(const Chunk& chunk, const Draws& draws, int64_t i) {
  const AdamWTensor& t = chunk.tensor;
  const Coefficients& c = chunk.coefficients;
  P* p = static_cast<P*>(t.p) + i;
  cuda::Vector<float, kSize> first, second;
  cuda::Vector<std::conditional_t<kMaster, float, P>, kSize> x;
  cuda::Vector<G, kSize> g;
  g.LoadStreaming(static_cast<const G*>(t.g) + i);
  first.LoadStreaming(t.m + i);
  second.LoadStreaming(t.v + i);
  if constexpr (kMaster) {
    x.LoadStreaming(t.master + i);
  } else {
    x.LoadStreaming(p);
  }
#pragma unroll
  for (int j = 0; j < kSize; ++j) {
    const float gradient = g.value[j] * c.clip;
    first.value[j] = c.beta1 * first.value[j] + c.one_minus_beta1 * gradient;
    second.value[j] = c.beta2 * second.value[j] + c.one_minus_beta2 * (gradient * gradient);
    const float denominator = sqrtf(second.value[j]) * c.root_scale + c.eps;
    // Decay and step are subtracted together: 1 - decay would lose most bits of a small decay.
    x.value[j] -= c.decay * x.value[j] + c.step_size * (first.value[j] / denominator);
  }
  first.StoreStreaming(t.m + i);
  second.StoreStreaming(t.v + i);
  if constexpr (kMaster) {
    x.StoreStreaming(t.master + i);
  } else if constexpr (sizeof(P) == 2) {
    RoundStochastically(draws, t.index, t.begin + i, x.value);
  }
  cuda::Vector<P, kSize> rounded;
#pragma unroll
  for (int j = 0; j < kSize; ++j) rounded.value[j] = x.value[j];
  rounded.StoreStreaming(p);
}

// Chunks begin at multiples of kTensorChunk: the base pointers decide, and a group of elements must
// not straddle two Philox blocks.
__device__ __forceinline__ bool Aligned(const AdamWTensor& t) {
  const uintptr_t all = reinterpret_cast<uintptr_t>(t.p) | reinterpret_cast<uintptr_t>(t.master) |
                        reinterpret_cast<uintptr_t>(t.g) | reinterpret_cast<uintptr_t>(t.m) |
                        reinterpret_cast<uintptr_t>(t.v);
  return all % 16 == 0 && t.begin % kGroup == 0;
}

template <typename P, typename G, bool kMaster>
__device__ __forceinline__ void UpdateChunk(const Chunk& chunk, const Draws& draws) {
  int64_t done = chunk.begin;
  if (Aligned(chunk.tensor)) {
    done += (chunk.end - chunk.begin) / kGroup * kGroup;
    for (int64_t i = chunk.begin + int64_t{threadIdx.x} * kGroup; i < done;
         i += kThreads * kGroup) {
      Update<P, G, kMaster, kGroup>(chunk, draws, i);
    }
  }
  for (int64_t i = done + threadIdx.x; i < chunk.end; i += kThreads) {
    Update<P, G, kMaster, 1>(chunk, draws, i);
  }
}

template <typename G>
__device__ __forceinline__ void UpdateChunkOf(const Chunk& chunk, const Draws& draws) {
  if (chunk.tensor.p_dtype == DType::kFloat32) {
    UpdateChunk<float, G, false>(chunk, draws);
  } else if (chunk.tensor.master != nullptr) {
    UpdateChunk<cuda::bf16, G, true>(chunk, draws);
  } else {
    UpdateChunk<cuda::bf16, G, false>(chunk, draws);
  }
}

__global__ void __launch_bounds__(kThreads, 4)
    AdamWKernel(const AdamWTensor* tensors, int64_t count, const OptimizerScalars* scalars,
                Draws draws) {
  __shared__ Chunk chunk;
  if (scalars->skip != 0) return;
  if (threadIdx.x < cuda::kWarp) {
    const int64_t found = cuda::FindTensor(tensors, count, blockIdx.x);
    if (threadIdx.x == 0) {
      chunk.tensor = tensors[found];
      chunk.coefficients = MakeCoefficients(*scalars, chunk.tensor);
      const int64_t first = chunk.tensor.first_chunk - tensors[0].first_chunk;
      const cuda::ChunkRange range(int64_t{blockIdx.x} - first, chunk.tensor.n);
      chunk.begin = range.begin;
      chunk.end = range.end;
    }
  }
  __syncthreads();
  if (chunk.tensor.g_dtype == DType::kFloat32) {
    UpdateChunkOf<float>(chunk, draws);
  } else {
    UpdateChunkOf<cuda::bf16>(chunk, draws);
  }
}

// Behind all blocks of AdamWKernel, which read the count.
__global__ void AdamWCountUpdateKernel(OptimizerScalars* scalars) {
  if (scalars->skip == 0) ++scalars->applied_updates;
}

}  // namespace

bool AdamWSupports(DType p_dtype, DType g_dtype, bool master) {
  return p_dtype == DType::kBFloat16 || !master;
}

void AdamW(const AdamWArgs& args, Stream* stream) {
  cuda::RequireExtent(args.chunks, "AdamW", "chunks");
  const cudaStream_t handle = cuda::Handle(stream);
  if (args.chunks > 0) {
    AdamWKernel<<<static_cast<unsigned>(args.chunks), kThreads, 0, handle>>>(
        args.tensors, args.count, args.scalars, {{args.key[0], args.key[1]}, args.step});
    cuda::CheckLaunch("AdamW");
  }
  if (!args.last) return;
  AdamWCountUpdateKernel<<<1, 1, 0, handle>>>(args.scalars);
  cuda::CheckLaunch("AdamW");
}

}  // namespace coxswain::kernels
