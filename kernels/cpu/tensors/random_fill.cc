#include "kernels/tensors/random_fill.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/philox.h"

namespace coxswain::kernels {
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

}  // namespace coxswain::kernels
