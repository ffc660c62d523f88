#include "kernels/tensors/checksum.h"

#include <cstring>

#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"

namespace coxswain::kernels {
namespace {

// Source: SplitMix64, the output function.
uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

template <typename Bits>
uint64_t SumBits(const void* values, int64_t count) {
  const Bits* bits = static_cast<const Bits*>(values);
  uint64_t sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    sum += Mix(bits[i] + (static_cast<uint64_t>(i) << 32));
  }
  return sum;
}

template <typename Bits>
bool IsZero(const void* values, int64_t count) {
  const Bits* bits = static_cast<const Bits*>(values);
  for (int64_t i = 0; i < count; ++i) {
    if (static_cast<Bits>(bits[i] << 1) != 0) return false;  // the sign does not matter
  }
  return true;
}

uint64_t SumOf(DType dtype, const void* values, int64_t count) {
  return dtype == DType::kFloat32 ? SumBits<uint32_t>(values, count)
                                  : SumBits<uint16_t>(values, count);
}

bool IsZeroOf(DType dtype, const void* values, int64_t count) {
  return dtype == DType::kFloat32 ? IsZero<uint32_t>(values, count)
                                  : IsZero<uint16_t>(values, count);
}

}  // namespace

void Checksum(const ChecksumArgs& args, Stream* stream) {
  cpu::RequireExtent(args.count, "Checksum", "count");
  *args.sum += SumOf(args.dtype, args.values, args.count);
}

void AllZero(const AllZeroArgs& args, Stream* stream) {
  cpu::RequireExtent(args.count, "AllZero", "count");
  if (!IsZeroOf(args.dtype, args.values, args.count)) *args.all_zero = 0;
}

void ChecksumTensors(const ChecksumTensorsArgs& args, Stream* stream) {
  cpu::RequireExtent(args.chunks, "ChecksumTensors", "chunks");
  if (args.count == 0) return;
  const int64_t elements = args.chunks * kTensorChunk / args.count;
  cpu::ParallelFor(args.count, elements, [&args](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const NormTensor& tensor = args.tensors[i];
      args.bits[i] = {.checksum = SumOf(tensor.dtype, tensor.data, tensor.elements),
                      .nonzero = IsZeroOf(tensor.dtype, tensor.data, tensor.elements) ? 0u : 1u};
    }
  });
}

}  // namespace coxswain::kernels
