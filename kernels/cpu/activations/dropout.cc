// 64 columns at a time: 16 Philox counters side by side, so that the rounds vectorise.
#include "kernels/activations/dropout.h"

#include <algorithm>

#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vectorize.h"
#include "kernels/philox.h"

namespace coxswain::kernels {
namespace {

constexpr int64_t kCounters = 16;
constexpr int64_t kMaxColumns = 262144;  // 16 bits of column / 4
constexpr uint32_t kMaxSites = 65536;

struct RowWords {
  uint32_t step, site_word, bin, position;
};

// words[4 i + w] = word w of the draw of column group first_group + i.
COXSWAIN_INLINE void DrawWords(const uint32_t* key, const RowWords& row, int64_t first_group,
                               uint32_t* words) {
  PhiloxWords draws[kCounters];
  for (int64_t i = 0; i < kCounters; ++i) {
    const uint32_t group = static_cast<uint32_t>(first_group + i);
    draws[i] = Philox({{row.step, row.site_word | group, row.bin, row.position}}, key[0], key[1]);
  }
  for (int64_t i = 0; i < kCounters; ++i) {
    for (int64_t w = 0; w < 4; ++w) words[4 * i + w] = draws[i].word[w];
  }
}

template <bool kAccumulate>
COXSWAIN_INLINE void DropRow(const DropoutArgs& args, const RowWords& row, const float* x,
                             float* y) {
  const float rate = args.spec.rate, keep_scale = 1.0f / (1.0f - rate);
  uint32_t words[4 * kCounters];
  for (int64_t c = 0; c < args.spec.columns; c += 4 * kCounters) {
    DrawWords(args.mask.key, row, c / 4, words);
    const int64_t n = std::min<int64_t>(4 * kCounters, args.spec.columns - c);
    for (int64_t j = 0; j < n; ++j) {
      const float uniform = static_cast<float>(static_cast<int32_t>(words[j] >> 8)) * 0x1p-24f;
      const float value = uniform >= rate ? x[c + j] * keep_scale : 0.0f;
      y[c + j] = kAccumulate ? y[c + j] + value : value;
    }
  }
}

COXSWAIN_VECTORIZE void DropRows(const DropoutArgs& args, int64_t begin, int64_t end) {
  const int64_t columns = args.spec.columns;
  for (int64_t t = begin; t < end; ++t) {
    const RowWords row{*args.mask.step, args.mask.site << 16, args.mask.bins[t],
                       args.mask.positions[t]};
    const float* x = static_cast<const float*>(args.x) + t * columns;
    float* y = static_cast<float*>(args.y) + t * columns;
    if (args.accumulate) {
      DropRow<true>(args, row, x, y);
    } else {
      DropRow<false>(args, row, x, y);
    }
  }
}

COXSWAIN_VECTORIZE void CopyElements(const float* x, float* y, bool accumulate, int64_t n) {
  if (accumulate) {
    for (int64_t i = 0; i < n; ++i) y[i] += x[i];
  } else if (x != y) {
    for (int64_t i = 0; i < n; ++i) y[i] = x[i];
  }
}

}  // namespace

bool DropoutSupports(const DropoutSpec& spec) {
  return spec.dtype == DType::kFloat32 && spec.columns > 0 && spec.columns <= kMaxColumns &&
         spec.rate >= 0.0f && spec.rate < 1.0f;
}

void DropoutApply(const DropoutArgs& args, Stream* stream) {
  cpu::RequireSupported(DropoutSupports(args.spec) && args.mask.site < kMaxSites, "Dropout");
  if (args.spec.rate == 0.0f) {
    CopyElements(static_cast<const float*>(args.x), static_cast<float*>(args.y), args.accumulate,
                 args.rows * args.spec.columns);
    return;
  }
  cpu::ParallelFor(args.rows, 16 * args.spec.columns,
                   [&](int64_t begin, int64_t end) { DropRows(args, begin, end); });
}

}  // namespace coxswain::kernels
