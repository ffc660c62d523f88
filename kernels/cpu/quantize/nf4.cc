#include "kernels/quantize/nf4.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/optimizer/dynamic_map.h"

namespace coxswain::kernels {
namespace {

uint8_t CodeOf(float x) {
  uint8_t code = 0;
  for (int i = 0; i < 15; ++i) {
    const float middle = 0.5f * (kNf4Map.values[i] + kNf4Map.values[i + 1]);
    code = static_cast<uint8_t>(code + (middle < x ? 1 : 0));
  }
  return x == x ? code : 7;
}

void QuantizeBlock(const Nf4QuantizeArgs& args, int64_t block) {
  const int64_t begin = block * kNf4Block;
  const int64_t count = std::min(kNf4Block, args.elements - begin);
  const float* in = args.in + begin;
  float absmax = 0;
  for (int64_t i = 0; i < count; ++i) absmax = std::max(absmax, std::abs(in[i]));
  args.absmax[block] = absmax;
  const float inverse = absmax > 0 ? 1.0f / absmax : 0.0f;
  const auto code = [&](int64_t i) { return CodeOf(in[i] * inverse); };
  for (int64_t i = 0; i < count; i += 2) {
    const int low = i + 1 < count ? code(i + 1) : 0;
    args.codes[(begin + i) / 2] = static_cast<uint8_t>(code(i) << 4 | low);
  }
}

double SumInLanes(const float* values, int64_t count) {
  std::vector<double> lanes(kNf4SumLanes);
  for (int64_t i = 0; i < count; ++i) lanes[static_cast<size_t>(i % kNf4SumLanes)] += values[i];
  for (size_t half = kNf4SumLanes / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

}  // namespace

void Nf4Quantize(const Nf4QuantizeArgs& args, Stream* stream) {
  cpu::RequireExtent(args.elements, "Nf4Quantize", "elements");
  cpu::ParallelFor(Nf4Blocks(args.elements), kNf4Block * 8, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) QuantizeBlock(args, block);
  });
}

void Nf4QuantizeScales(const Nf4QuantizeScalesArgs& args, Stream* stream) {
  cpu::RequireExtent(args.blocks, "Nf4QuantizeScales", "blocks");
  if (args.blocks == 0) return;
  const double sum = SumInLanes(args.absmax, args.blocks);
  const float offset = static_cast<float>(sum / static_cast<double>(args.blocks));
  args.constants[0] = offset;
  const int64_t groups = (args.blocks + kNf4ScaleGroup - 1) / kNf4ScaleGroup;
  cpu::ParallelFor(groups, kNf4ScaleGroup * 16, [&](int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group) {
      const int64_t first = group * kNf4ScaleGroup;
      const int64_t last = std::min(first + kNf4ScaleGroup, args.blocks);
      float absmax = 0;
      for (int64_t i = first; i < last; ++i) {
        absmax = std::max(absmax, std::abs(args.absmax[i] - offset));
      }
      args.constants[1 + group] = absmax;
      for (int64_t i = first; i < last; ++i) {
        const float x = absmax > 0 ? (args.absmax[i] - offset) / absmax : 0.0f;
        args.codes[i] = NearestCode(kSignedDynamicMap, x);
      }
    }
  });
}

void Nf4Dequantize(const Nf4DequantizeArgs& args, Stream* stream) {
  cpu::RequireExtent(args.elements, "Nf4Dequantize", "elements");
  cpu::RequireSupported(args.dtype == DType::kFloat32, "Nf4Dequantize");
  float* const out = static_cast<float*>(args.out);
  cpu::ParallelFor(Nf4Blocks(args.elements), kNf4Block, [&](int64_t from, int64_t to) {
    for (int64_t block = from; block < to; ++block) {
      float absmax = 0;
      if (args.absmax != nullptr) {
        absmax = args.absmax[block];
      } else {
        const float scaled = kSignedDynamicMap.values[args.absmax_codes[block]] *
                             args.constants[1 + (args.first_block + block) / kNf4ScaleGroup];
        absmax = scaled + args.constants[0];
      }
      const int64_t end = std::min((block + 1) * kNf4Block, args.elements);
      for (int64_t i = block * kNf4Block; i < end; ++i) {
        const int code = args.codes[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15;
        out[i] = kNf4Map.values[code] * absmax;
      }
    }
  });
}

}  // namespace coxswain::kernels
