#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/tensors/add_scaled.h"
#include "kernels/cpu/vectorize.h"
#include "kernels/philox.h"
#include "kernels/tensors/whole_tensors.h"

namespace coxswain::kernels {

void Add(const AddArgs& args, Stream* stream) {
  cpu::RequireSupported(args.dtype == DType::kFloat32 && args.x_dtype == DType::kFloat32, "Add");
  const float* x = static_cast<const float*>(args.x);
  float* y = static_cast<float*>(args.y);
  cpu::ParallelFor(args.count, 1, [&](int64_t begin, int64_t end) {
    cpu::AddScaled(args.alpha, x + begin, y + begin, end - begin);
  });
}

namespace {

COXSWAIN_VECTORIZE void ScaleRange(float factor, float* x, int64_t n) {
  for (int64_t j = 0; j < n; ++j) x[j] *= factor;
}

}  // namespace

void Scale(const ScaleArgs& args, Stream* stream) {
  cpu::RequireSupported(args.dtype == DType::kFloat32, "Scale");
  const float factor = *args.factor;
  if (factor == 1.0f) return;
  float* x = static_cast<float*>(args.x);
  cpu::ParallelFor(args.count, 1,
                   [&](int64_t begin, int64_t end) { ScaleRange(factor, x + begin, end - begin); });
}

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

namespace {

double Uniform(uint32_t word) { return static_cast<double>(word >> 8) * 0x1p-24; }

double Value(const RandomFillArgs& args, const PhiloxWords& words, int64_t j) {
  if (args.kind == RandomFillKind::kUniform) {
    return args.value * (2.0 * Uniform(words.word[j]) - 1.0);
  }
  const double radius = std::sqrt(-2.0 * std::log(1.0 - Uniform(words.word[j / 2 * 2])));
  const double angle = 2.0 * M_PI * Uniform(words.word[j / 2 * 2 + 1]);
  return args.value * radius * (j % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

}  // namespace

void RandomFill(const RandomFillArgs& args, Stream* stream) {
  cpu::RequireSupported(args.dtype == DType::kFloat32, "RandomFill");
  cpu::RequireExtent(args.count, "RandomFill", "count");
  float* out = static_cast<float*>(args.out);
  if (args.kind == RandomFillKind::kConstant) {
    std::fill_n(out, args.count, static_cast<float>(args.value));
    return;
  }
  const int64_t first_block = args.first / 4, end_block = (args.first + args.count + 3) / 4;
  cpu::ParallelFor(end_block - first_block, 256, [&](int64_t begin, int64_t end) {
    for (int64_t block = first_block + begin; block < first_block + end; ++block) {
      const PhiloxWords words =
          Philox({{static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                   args.counter[0], args.counter[1]}},
                 args.key[0], args.key[1]);
      for (int64_t j = 0; j < 4; ++j) {
        const int64_t i = 4 * block + j - args.first;
        if (i >= 0 && i < args.count) out[i] = static_cast<float>(Value(args, words, j));
      }
    }
  });
}

namespace {

COXSWAIN_VECTORIZE double SumValues(const float* values, int64_t n) {
  double lanes[cpu::kLanes] = {};
  int64_t i = 0;
  for (; i + cpu::kLanes <= n; i += cpu::kLanes) {
    for (int64_t j = 0; j < cpu::kLanes; ++j) lanes[j] += static_cast<double>(values[i + j]);
  }
  for (int64_t j = 0; i + j < n; ++j) lanes[j] += static_cast<double>(values[i + j]);
  return cpu::SumLanes(lanes);
}

}  // namespace

void Sum(const SumArgs& args, Stream* stream) {
  cpu::RequireExtent(args.count, "Sum", "count");
  const double sum = SumValues(args.values, args.count);
  *args.sum = args.accumulate ? *args.sum + sum : sum;
}

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
