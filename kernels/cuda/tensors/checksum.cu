// Checksum and test for zero of a tensor's bits, or of those of a list
// (kernels/tensors/whole_tensors.h). Source: Steele, Lea and Flood, "Fast Splittable Pseudorandom
// Number Generators", 2014.
//
// A tensor: grid-stride over vectors; a list: a block per chunk of kTensorChunk elements. Then one
// atomic per block and result: the sum is of integers modulo 2^64 and the test a logical and, so
// their order does not matter and the result is the same every time. sizeof(T) bytes per element
// and about 15 instructions.
#include "kernels/tensors/whole_tensors.h"

#include <algorithm>

#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/tensor_list.cuh"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocksPerMultiprocessor = 8;

// Source: SplitMix64, the output function.
__device__ __forceinline__ unsigned long long Mix(unsigned long long z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// Which threads share elements, and which of them this one is.
struct Share {
  int64_t thread, threads;
};
__device__ __forceinline__ Share OfGrid() {
  return {int64_t{blockIdx.x} * kThreads + threadIdx.x, int64_t{gridDim.x} * kThreads};
}

// fn(i, bits of element i) for this thread's share of the tensor. Bits is the unsigned integer as
// wide as an element, Raw the type of an access, to which `values` is aligned.
template <typename Bits, typename Raw, typename Fn>
__device__ __forceinline__ void ForElements(Share share, int64_t count, const Bits* values,
                                            const Fn& fn) {
  constexpr int kWide = sizeof(Raw) / sizeof(Bits);
  const auto [thread, threads] = share;
  const int64_t vectors = count / kWide;
#pragma unroll 4
  for (int64_t v = thread; v < vectors; v += threads) {
    const Raw raw = __ldcs(reinterpret_cast<const Raw*>(values) + v);
    const Bits* bits = reinterpret_cast<const Bits*>(&raw);
#pragma unroll
    for (int i = 0; i < kWide; ++i) fn(v * kWide + i, bits[i]);
  }
  const int64_t tail = vectors * kWide + thread;
  if (tail < count) fn(tail, values[tail]);
}

template <typename Bits, typename Raw>
__global__ void __launch_bounds__(kThreads)
    ChecksumKernel(int64_t count, const Bits* values, uint64_t* sum) {
  __shared__ unsigned long long shared[cuda::kWarp];
  unsigned long long own = 0;
  ForElements<Bits, Raw>(OfGrid(), count, values, [&](int64_t i, Bits bits) {
    own += Mix(bits + (static_cast<unsigned long long>(i) << 32));
  });
  const unsigned long long total = cuda::BlockSum(own, shared);
  if (threadIdx.x == 0) atomicAdd(reinterpret_cast<unsigned long long*>(sum), total);
}

template <typename Bits, typename Raw>
__global__ void __launch_bounds__(kThreads)
    AllZeroKernel(int64_t count, const Bits* values, int32_t* all_zero) {
  bool nonzero = false;
  ForElements<Bits, Raw>(OfGrid(), count, values, [&](int64_t, Bits bits) {
    nonzero |= static_cast<Bits>(bits << 1) != 0;  // the sign does not matter
  });
  if (__syncthreads_or(nonzero) && threadIdx.x == 0) atomicAnd(all_zero, 0);
}

struct ChunkBits {
  unsigned long long sum = 0;
  bool nonzero = false;
};

// This thread's share of a chunk that begins at element `begin` of its tensor.
template <typename Bits, typename Raw>
__device__ __forceinline__ ChunkBits BitsOfChunk(const void* data, cuda::ChunkRange range) {
  ChunkBits own;
  const auto begin = static_cast<unsigned long long>(range.begin);
  ForElements<Bits, Raw>({threadIdx.x, kThreads}, range.end - range.begin,
                         static_cast<const Bits*>(data) + range.begin, [&](int64_t i, Bits bits) {
                           own.sum +=
                               Mix(bits + ((begin + static_cast<unsigned long long>(i)) << 32));
                           own.nonzero |= static_cast<Bits>(bits << 1) != 0;
                         });
  return own;
}

__device__ __forceinline__ ChunkBits BitsOfChunk(const NormTensor& tensor, cuda::ChunkRange range) {
  const bool aligned = reinterpret_cast<uintptr_t>(tensor.data) % sizeof(uint4) == 0;
  if (tensor.dtype == DType::kFloat32) {
    return aligned ? BitsOfChunk<uint32_t, uint4>(tensor.data, range)
                   : BitsOfChunk<uint32_t, uint32_t>(tensor.data, range);
  }
  return aligned ? BitsOfChunk<uint16_t, uint4>(tensor.data, range)
                 : BitsOfChunk<uint16_t, uint16_t>(tensor.data, range);
}

__global__ void __launch_bounds__(kThreads) ChecksumTensorsKernel(const ChecksumTensorsArgs args) {
  __shared__ unsigned long long shared[cuda::kWarp];
  const int64_t chunk = blockIdx.x;
  const int64_t found = cuda::FindTensor(args.tensors, args.count, chunk);
  const NormTensor tensor = args.tensors[found];
  const cuda::ChunkRange range(chunk - (tensor.first_chunk - args.tensors[0].first_chunk),
                               tensor.elements);
  const ChunkBits own = BitsOfChunk(tensor, range);
  const unsigned long long total = cuda::BlockSum(own.sum, shared);
  const bool nonzero = __syncthreads_or(own.nonzero);
  if (threadIdx.x != 0) return;
  TensorBits* bits = args.bits + found;
  atomicAdd(reinterpret_cast<unsigned long long*>(&bits->checksum), total);
  if (nonzero) atomicOr(reinterpret_cast<unsigned long long*>(&bits->nonzero), 1ull);
}

// Calls launch(bits, raw, blocks) with the types that fit the tensor.
template <typename Launch>
void ForBits(DType dtype, int64_t count, const void* values, const Launch& launch) {
  const int64_t wanted = cuda::CeilDiv(count, kThreads * 16 / DTypeBytes(dtype));
  const auto blocks = static_cast<unsigned>(
      std::min<int64_t>(wanted, int64_t{kBlocksPerMultiprocessor} * cuda::Multiprocessors()));
  const bool aligned = cuda::Aligned<float>(values, 0);
  if (dtype == DType::kFloat32 && aligned) {
    launch(uint32_t{}, uint4{}, blocks);
  } else if (dtype == DType::kFloat32) {
    launch(uint32_t{}, uint32_t{}, blocks);
  } else if (aligned) {
    launch(uint16_t{}, uint4{}, blocks);
  } else {
    launch(uint16_t{}, uint16_t{}, blocks);
  }
}

}  // namespace

void Checksum(const ChecksumArgs& args, Stream* stream) {
  cuda::RequireExtent(args.count, "Checksum", "count");
  if (args.count == 0) return;
  ForBits(args.dtype, args.count, args.values, [&](auto bits, auto raw, unsigned blocks) {
    using Bits = decltype(bits);
    ChecksumKernel<Bits, decltype(raw)><<<blocks, kThreads, 0, cuda::Handle(stream)>>>(
        args.count, static_cast<const Bits*>(args.values), args.sum);
  });
  cuda::CheckLaunch("Checksum");
}

void AllZero(const AllZeroArgs& args, Stream* stream) {
  cuda::RequireExtent(args.count, "AllZero", "count");
  if (args.count == 0) return;
  ForBits(args.dtype, args.count, args.values, [&](auto bits, auto raw, unsigned blocks) {
    using Bits = decltype(bits);
    AllZeroKernel<Bits, decltype(raw)><<<blocks, kThreads, 0, cuda::Handle(stream)>>>(
        args.count, static_cast<const Bits*>(args.values), args.all_zero);
  });
  cuda::CheckLaunch("AllZero");
}

void ChecksumTensors(const ChecksumTensorsArgs& args, Stream* stream) {
  cuda::RequireExtent(args.chunks, "ChecksumTensors", "chunks");
  SetMemory(args.bits, 0, args.count * static_cast<int64_t>(sizeof(TensorBits)), stream);
  if (args.chunks == 0) return;
  ChecksumTensorsKernel<<<static_cast<unsigned>(args.chunks), kThreads, 0, cuda::Handle(stream)>>>(
      args);
  cuda::CheckLaunch("ChecksumTensors");
}

}  // namespace coxswain::kernels
