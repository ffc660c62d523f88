#include "kernels/checksum.h"

#include <cstring>

#include "kernels/cpu/check.h"

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

}  // namespace

void Checksum(const ChecksumArgs& args, Stream* stream) {
  cpu::RequireExtent(args.count, "Checksum", "count");
  *args.sum += args.dtype == DType::kFloat32 ? SumBits<uint32_t>(args.values, args.count)
                                             : SumBits<uint16_t>(args.values, args.count);
}

void AllZero(const AllZeroArgs& args, Stream* stream) {
  cpu::RequireExtent(args.count, "AllZero", "count");
  const bool zero = args.dtype == DType::kFloat32 ? IsZero<uint32_t>(args.values, args.count)
                                                  : IsZero<uint16_t>(args.values, args.count);
  if (!zero) *args.all_zero = 0;
}

}  // namespace coxswain::kernels
