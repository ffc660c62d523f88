#include "kernels/tensors/convert.h"

#include <bit>
#include <cstring>

#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"

namespace coxswain::kernels {
namespace {

uint16_t ToBFloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16) | 0x40u;  // NaN
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float FromBFloat16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

}  // namespace

void Convert(const ConvertArgs& args, Stream* stream) {
  cpu::RequireExtent(args.count, "Convert", "count");
  if (args.from == args.to) {
    if (args.count > 0) {
      std::memcpy(args.out, args.in, static_cast<size_t>(args.count * DTypeBytes(args.to)));
    }
    return;
  }
  cpu::ParallelFor(args.count, 2, [&](int64_t begin, int64_t end) {
    if (args.to == DType::kBFloat16) {
      const float* in = static_cast<const float*>(args.in);
      uint16_t* out = static_cast<uint16_t*>(args.out);
      for (int64_t i = begin; i < end; ++i) out[i] = ToBFloat16(in[i]);
    } else {
      const uint16_t* in = static_cast<const uint16_t*>(args.in);
      float* out = static_cast<float*>(args.out);
      for (int64_t i = begin; i < end; ++i) out[i] = FromBFloat16(in[i]);
    }
  });
}

}  // namespace coxswain::kernels
