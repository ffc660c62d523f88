// AdamW with 8-bit states over a list of tensors in one launch (kernels/optimizer/adamw_8bit.h has
// the formulas).
//
// A block per chunk of kTensorChunk elements, a warp per block of 256 of them: a lane has twice 4
// neighbours, so that every access of the warp is of whole lines (16 bytes of float32, 8 of
// bfloat16, 4 of codes a lane). Bytes moved per element, with bfloat16 gradients: 16 1/16 with a
// master, 14 1/16 in float32 without, 10 1/16 with stochastic rounding; 2 more with float32
// gradients.
// At the memory's rate an element has some 110 instructions and takes 90: codes are decoded by a
// table in shared memory, about 3.4 rounds a warp where its codes are spread evenly, and found by
// two lines of another (dynamic_code.cuh), where a search would wait 8 times; root and quotient are
// approximate. Blocks of 256 are independent and a maximum has no order: bitwise deterministic.
#include "kernels/optimizer/adamw_8bit.h"

#include "kernels/cuda/dynamic_code.cuh"
#include "kernels/cuda/optimizer/adamw.cuh"
#include "kernels/cuda/optimizer/adamw_count.h"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/tensor_list.cuh"
#include "kernels/optimizer/dynamic_lines.h"
#include "kernels/optimizer/dynamic_map.h"

namespace coxswain::kernels {
namespace {

constexpr int kWarps = cuda::kAdamWThreads / cuda::kWarp;
static_assert(cuda::kAdamWThreads == kDynamicCodes);  // a thread fills an entry of each table

__device__ const DynamicMap kSigned = kSignedDynamicMap;
__device__ const DynamicMap kUnsigned = kUnsignedDynamicMap;

__device__ const DynamicLineTable kSignedLines = MakeDynamicLineTable<true>();
__device__ const DynamicLineTable kUnsignedLines = MakeDynamicLineTable<false>();
static_assert(cuda::kAdamWThreads == kExponents);

struct SharedMaps {
  float of_m[kDynamicCodes], of_v[kDynamicCodes];
  DynamicLineTable m_lines, v_lines;
};

constexpr int kChunkBlocks = static_cast<int>(kTensorChunk / kStateBlock);

// The new absmax of the chunk's blocks wait in shared memory until all are there: stored one by one
// they are parts of sectors, which cost a fifth of the time.
struct BlockwiseChunk {
  cuda::AdamWChunk of;
  uint8_t *m_codes, *v_codes;
  float *m_absmax, *v_absmax;
  int64_t first_block;
  float new_m[kChunkBlocks], new_v[kChunkBlocks];
};

// Of a block: absmax of both states, or what divides by them.
struct AbsMax {
  float m, v;
};

// The larger of largest and |x|; NaN stays.
__device__ __forceinline__ float MaxSize(float largest, float x) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(largest), "f"(fabsf(x)));
  return y;
}
// Bits of numbers without a sign are ordered as they are, those of NaN above all.
__device__ __forceinline__ float MaxOverWarp(float x) {
  return __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(x)));
}

__device__ __forceinline__ uint32_t Byte(uint32_t word, int index) {
  return __byte_perm(word, 0, 0x4440 + index);
}

// Both states of an element.
__device__ __forceinline__ void Decode(const SharedMaps& maps, uint32_t m_code, uint32_t v_code,
                                       const AbsMax& absmax, float& m, float& v) {
  m = maps.of_m[m_code] * absmax.m;
  v = maps.of_v[v_code] * absmax.v;
}

// The block's new absmax, of all its lanes', is kept; what divides by it is returned.
__device__ __forceinline__ AbsMax KeepAbsMax(BlockwiseChunk& chunk, int64_t block,
                                             const AbsMax& of_lane) {
  const AbsMax largest{MaxOverWarp(of_lane.m), MaxOverWarp(of_lane.v)};
  if (threadIdx.x % cuda::kWarp == 0) {
    chunk.new_m[block - chunk.first_block] = largest.m;
    chunk.new_v[block - chunk.first_block] = largest.v;
  }
  return {1.0f / fmaxf(largest.m, 1e-38f), 1.0f / fmaxf(largest.v, 1e-38f)};
}

// A lane's part of a whole, aligned block: kGroups times kSize neighbours.
template <typename P, typename G, bool kMaster>
struct BlockPart {
  using X = cuda::AdamWValue<P, kMaster>;
  static constexpr int kSize = cuda::kAdamWGroup;
  static constexpr int kStride = kSize * cuda::kWarp;
  static constexpr int kGroups = static_cast<int>(kStateBlock) / kStride;

  typename cuda::Vector<X, kSize>::Raw x[kGroups];
  typename cuda::Vector<G, kSize>::Raw g[kGroups];
  uint32_t m_codes[kGroups], v_codes[kGroups];
  AbsMax absmax;

  static __device__ __forceinline__ int64_t First(int64_t block) {
    return block * kStateBlock + threadIdx.x % cuda::kWarp * kSize;
  }

  __device__ __forceinline__ void Fetch(const BlockwiseChunk& chunk, int64_t block) {
    const AdamWTensor& t = chunk.of.tensor;
#pragma unroll
    for (int k = 0; k < kGroups; ++k) {
      const int64_t i = First(block) + k * kStride;
      m_codes[k] = __ldcs(reinterpret_cast<const uint32_t*>(chunk.m_codes + i));
      v_codes[k] = __ldcs(reinterpret_cast<const uint32_t*>(chunk.v_codes + i));
      g[k] = cuda::Vector<G, kSize>::FetchStreaming(static_cast<const G*>(t.g) + i);
      x[k] = cuda::Vector<X, kSize>::FetchStreaming(cuda::ValuesOf<P, kMaster>(t) + i);
    }
    absmax = {chunk.m_absmax[block], chunk.v_absmax[block]};
  }
};

// Updates such a block, fetched before, by a warp.
template <typename P, typename G, bool kMaster>
__device__ __forceinline__ void UpdateBlock(BlockwiseChunk& chunk, const SharedMaps& maps,
                                            const PhiloxKeys& keys,
                                            const BlockPart<P, G, kMaster>& part, int64_t block) {
  using Part = BlockPart<P, G, kMaster>;
  constexpr int kSize = Part::kSize, kGroups = Part::kGroups;
  cuda::Vector<typename Part::X, kSize> x[kGroups];
  float m[kGroups][kSize], v[kGroups][kSize];
  AbsMax largest{0.0f, 0.0f};
#pragma unroll
  for (int k = 0; k < kGroups; ++k) {
    cuda::Vector<G, kSize> g;
    x[k].Unpack(part.x[k]);
    g.Unpack(part.g[k]);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      Decode(maps, Byte(part.m_codes[k], j), Byte(part.v_codes[k], j), part.absmax, m[k][j],
             v[k][j]);
      cuda::UpdateElement<true>(chunk.of.coefficients, g.value[j], x[k].value[j], m[k][j], v[k][j]);
      largest = {MaxSize(largest.m, m[k][j]), MaxSize(largest.v, v[k][j])};
    }
  }
  cuda::StoreValues<P, kMaster, kSize>(chunk.of, keys, Part::First(block), Part::kStride, x);
  const AbsMax scale = KeepAbsMax(chunk, block, largest);
#pragma unroll
  for (int k = 0; k < kGroups; ++k) {
    uint32_t m_code[kSize], v_code[kSize];
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      m_code[j] = cuda::SignedCodeByte(maps.m_lines, fabsf(m[k][j]) * scale.m, m[k][j]);
      v_code[j] = cuda::UnsignedCodeByte(maps.v_lines, v[k][j] * scale.v);
    }
    const int64_t i = Part::First(block) + k * Part::kStride;
    __stcs(reinterpret_cast<uint32_t*>(chunk.m_codes + i), cuda::PackBytes(m_code));
    __stcs(reinterpret_cast<uint32_t*>(chunk.v_codes + i), cuda::PackBytes(v_code));
  }
}

// The same of a block that is short or not aligned, an element of a lane at a time: twice, for
// absmax and for the update, so that no lane keeps more than one.
template <typename P, typename G, bool kMaster>
__device__ __forceinline__ void UpdateAnyBlock(BlockwiseChunk& chunk, const SharedMaps& maps,
                                               const PhiloxKeys& keys, int64_t block) {
  const AdamWTensor& t = chunk.of.tensor;
  const int64_t first = block * kStateBlock + threadIdx.x % cuda::kWarp;
  const int64_t end = min((block + 1) * kStateBlock, t.n);
  const AbsMax absmax{chunk.m_absmax[block], chunk.v_absmax[block]};
  const auto updated = [&](int64_t i, float& x, float& m, float& v) {
    Decode(maps, chunk.m_codes[i], chunk.v_codes[i], absmax, m, v);
    const float g = cuda::ToFloat(static_cast<const G*>(t.g)[i]);
    cuda::UpdateElement<true>(chunk.of.coefficients, g, x, m, v);
  };
  AbsMax largest{0.0f, 0.0f};
#pragma unroll 1
  for (int64_t i = first; i < end; i += cuda::kWarp) {
    float x = 0, m, v;
    updated(i, x, m, v);
    largest = {MaxSize(largest.m, m), MaxSize(largest.v, v)};
  }
  const AbsMax scale = KeepAbsMax(chunk, block, largest);
#pragma unroll 1
  for (int64_t i = first; i < end; i += cuda::kWarp) {
    cuda::Vector<cuda::AdamWValue<P, kMaster>, 1> x[1];
    x[0].LoadStreaming(cuda::ValuesOf<P, kMaster>(t) + i);
    float m, v;
    updated(i, x[0].value[0], m, v);
    cuda::StoreValues<P, kMaster, 1>(chunk.of, keys, i, 0, x);
    chunk.m_codes[i] =
        static_cast<uint8_t>(cuda::SignedCodeByte(maps.m_lines, fabsf(m) * scale.m, m));
    chunk.v_codes[i] = static_cast<uint8_t>(cuda::UnsignedCodeByte(maps.v_lines, v * scale.v));
  }
}

__device__ __forceinline__ bool CodesAligned(const BlockwiseChunk& chunk) {
  const uintptr_t all =
      reinterpret_cast<uintptr_t>(chunk.m_codes) | reinterpret_cast<uintptr_t>(chunk.v_codes);
  return all % 4 == 0;
}

// A block is fetched while the one before is updated, the first while one thread computes the
// coefficients.
template <typename P, typename G, bool kMaster>
__device__ __forceinline__ void UpdateBlocks(BlockwiseChunk& chunk, const SharedMaps& maps,
                                             const PhiloxKeys& keys,
                                             const OptimizerScalars& scalars) {
  const bool aligned = cuda::IsAligned(chunk.of.tensor) && CodesAligned(chunk);
  const int64_t end = StateBlocks(chunk.of.end);
  const int64_t whole = aligned ? chunk.of.end / kStateBlock : 0;  // blocks before it are
  int64_t block = chunk.first_block + threadIdx.x / cuda::kWarp;
  BlockPart<P, G, kMaster> part;
  if (block < whole) part.Fetch(chunk, block);
  if (threadIdx.x == 0) {
    chunk.of.coefficients = cuda::MakeCoefficients(scalars, chunk.of.tensor);
  }
  __syncthreads();
  for (; block < whole; block += kWarps) {
    const BlockPart<P, G, kMaster> fetched = part;
    if (block + kWarps < whole) part.Fetch(chunk, block + kWarps);
    UpdateBlock<P, G, kMaster>(chunk, maps, keys, fetched, block);
  }
  for (; block < end; block += kWarps) UpdateAnyBlock<P, G, kMaster>(chunk, maps, keys, block);
  __syncthreads();
  if (threadIdx.x < end - chunk.first_block) {
    chunk.m_absmax[chunk.first_block + threadIdx.x] = chunk.new_m[threadIdx.x];
    chunk.v_absmax[chunk.first_block + threadIdx.x] = chunk.new_v[threadIdx.x];
  }
}

template <typename G>
__device__ __forceinline__ void UpdateBlocksOf(BlockwiseChunk& chunk, const SharedMaps& maps,
                                               const PhiloxKeys& keys,
                                               const OptimizerScalars& scalars) {
  if (chunk.of.tensor.p_dtype == DType::kFloat32) {
    UpdateBlocks<float, G, false>(chunk, maps, keys, scalars);
  } else if (chunk.of.tensor.master != nullptr) {
    UpdateBlocks<cuda::bf16, G, true>(chunk, maps, keys, scalars);
  } else {
    UpdateBlocks<cuda::bf16, G, false>(chunk, maps, keys, scalars);
  }
}

__global__ void __launch_bounds__(cuda::kAdamWThreads, 3)
    AdamW8bitKernel(const AdamW8bitTensor* tensors, int64_t count, const OptimizerScalars* scalars,
                    const __grid_constant__ cuda::AdamWDraws draws) {
  __shared__ BlockwiseChunk chunk;
  __shared__ SharedMaps maps;
  if (scalars->skip != 0) return;
  if (threadIdx.x < cuda::kWarp) {
    const int64_t found = cuda::FindTensor(tensors, count, blockIdx.x);
    if (threadIdx.x == 0) {
      const AdamW8bitTensor& t = tensors[found];
      const int64_t first = cuda::FirstChunk(t) - cuda::FirstChunk(tensors[0]);
      cuda::PlaceChunk(draws, t.tensor, int64_t{blockIdx.x} - first, &chunk.of);
      chunk.m_codes = t.m_codes;
      chunk.v_codes = t.v_codes;
      chunk.m_absmax = t.m_absmax;
      chunk.v_absmax = t.v_absmax;
      chunk.first_block = chunk.of.begin / kStateBlock;
    }
  }
  maps.of_m[threadIdx.x] = kSigned.values[threadIdx.x];
  maps.of_v[threadIdx.x] = kUnsigned.values[threadIdx.x];
  maps.m_lines.of[threadIdx.x] = kSignedLines.of[threadIdx.x];
  maps.v_lines.of[threadIdx.x] = kUnsignedLines.of[threadIdx.x];
  __syncthreads();
  if (chunk.m_codes == nullptr) {
    if (threadIdx.x == 0) {
      chunk.of.coefficients = cuda::MakeCoefficients(*scalars, chunk.of.tensor);
    }
    __syncthreads();
    return cuda::UpdateChunkOf<float>(chunk.of, draws);
  }
  if (chunk.of.tensor.g_dtype == DType::kFloat32) {
    UpdateBlocksOf<float>(chunk, maps, draws.weights, *scalars);
  } else {
    UpdateBlocksOf<cuda::bf16>(chunk, maps, draws.weights, *scalars);
  }
}

}  // namespace

void AdamW8bit(const AdamW8bitArgs& args, Stream* stream) {
  cuda::RequireExtent(args.chunks, "AdamW8bit", "chunks");
  const cudaStream_t handle = cuda::Handle(stream);
  if (args.chunks > 0) {
    AdamW8bitKernel<<<static_cast<unsigned>(args.chunks), cuda::kAdamWThreads, 0, handle>>>(
        args.tensors, args.count, args.scalars, cuda::MakeDraws(args.draws));
    cuda::CheckLaunch("AdamW8bit");
  }
  if (args.last) cuda::CountUpdate(args.scalars, handle);
}

}  // namespace coxswain::kernels
