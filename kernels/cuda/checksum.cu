// Checksum and test for zero of a tensor's bits (kernels/checksum.h).
// Source: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014.
//
// Grid-stride over vectors, then one atomic per block: the sum is of integers modulo 2^64 and the
// test a logical and, so their order does not matter and the result is the same every time.
// sizeof(T) bytes per element and about 15 instructions.
#include "kernels/checksum.h"

#include <algorithm>

#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/stream.h"
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

// fn(i, bits of element i) for this thread's share of the tensor. Bits is the unsigned integer as
// wide as an element, Raw the type of an access, to which `values` is aligned.
template <typename Bits, typename Raw, typename Fn>
__device__ __forceinline__ void ForElements(int64_t count, const Bits* values, const Fn& fn) {
  constexpr int kWide = sizeof(Raw) / sizeof(Bits);
  const int64_t thread = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t threads = int64_t{gridDim.x} * kThreads, vectors = count / kWide;
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
  ForElements<Bits, Raw>(count, values, [&](int64_t i, Bits bits) {
    own += Mix(bits + (static_cast<unsigned long long>(i) << 32));
  });
  const unsigned long long total = cuda::BlockSum(own, shared);
  if (threadIdx.x == 0) atomicAdd(reinterpret_cast<unsigned long long*>(sum), total);
}

template <typename Bits, typename Raw>
__global__ void __launch_bounds__(kThreads)
    AllZeroKernel(int64_t count, const Bits* values, int32_t* all_zero) {
  bool nonzero = false;
  ForElements<Bits, Raw>(count, values, [&](int64_t, Bits bits) {
    nonzero |= static_cast<Bits>(bits << 1) != 0;  // the sign does not matter
  });
  if (__syncthreads_or(nonzero) && threadIdx.x == 0) atomicAnd(all_zero, 0);
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

}  // namespace coxswain::kernels
