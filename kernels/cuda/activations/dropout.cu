// y (+)= mask(x) / (1 - rate), the mask drawn anew from counters (kernels/activations/dropout.h).
// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
//
// One thread per vector of a row: a Philox draw serves 4 columns, so 1 or 2 draws per thread.
// 2 sizeof(T) bytes per element (3 when accumulating) and about 15 instructions. Elementwise:
// bitwise deterministic, the mask equal to the CPU's.
#include "kernels/activations/dropout.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "kernels/cuda/divisor.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"
#include "kernels/philox.h"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxColumns = 262144;  // 16 bits of column / 4
constexpr uint32_t kMaxSites = 65536;

// What a launch draws: a word w is kept when w >= threshold, which is (w >> 8) 2^-24 >= rate.
struct Draw {
  DropoutMask mask;
  PhiloxKeys keys;
  uint32_t threshold;
  float keep_scale;

  Draw(const DropoutMask& from, float rate)
      : mask(from),
        keys(MakePhiloxKeys(from.key[0], from.key[1])),
        threshold(static_cast<uint32_t>(std::ceil(std::ldexp(rate, 24))) << 8),
        keep_scale(1.0f / (1.0f - rate)) {}
};

// Multiplies the elements from `column` on of one token by 0 or keep_scale.
template <typename V>
__device__ __forceinline__ void Drop(const Draw& draw, int64_t row, uint32_t column, V* x) {
  const uint32_t step = *draw.mask.step, bin = draw.mask.bins[row];
  const uint32_t position = draw.mask.positions[row], site = draw.mask.site << 16;
#pragma unroll
  for (int i = 0; i < V::kSize; i += 4) {
    const PhiloxWords words = Philox({{step, site | (column + i) / 4, bin, position}}, draw.keys);
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      if (V::kSize == 1 && column % 4 != w) continue;
      float& value = x->value[V::kSize == 1 ? 0 : i + w];
      value = words.word[w] >= draw.threshold ? value * draw.keep_scale : 0.0f;
    }
  }
}

template <typename V, bool kDraw, bool kAccumulate>
__global__ void __launch_bounds__(kThreads)
    DropoutKernel(uint32_t count, cuda::Divisor row_vectors, Draw draw,
                  const typename V::Element* x, typename V::Element* y) {
  const uint32_t v = blockIdx.x * kThreads + threadIdx.x;
  if (v >= count) return;
  const int64_t at = int64_t{v} * V::kSize;
  V value, before;
  value.Load(x + at);
  if (kAccumulate) before.Load(y + at);
  if (kDraw) {
    const uint32_t row = row_vectors.Quotient(v);
    Drop(draw, row, (v - row * row_vectors.divisor) * V::kSize, &value);
  }
#pragma unroll
  for (int i = 0; i < V::kSize; ++i) {
    if (kAccumulate) value.value[i] += before.value[i];
  }
  value.Store(y + at);
}

// Calls fn with true_type or false_type.
template <typename Fn>
void ForBool(bool value, const Fn& fn) {
  if (value) {
    fn(std::true_type{});
  } else {
    fn(std::false_type{});
  }
}

template <typename V>
void Launch(const DropoutArgs& args, cudaStream_t stream) {
  using T = typename V::Element;
  const float rate = args.spec.rate;
  const int64_t columns = args.spec.columns, row_vectors = columns / V::kSize;
  const int64_t piece_rows = (int64_t{1} << 31) / row_vectors;
  for (int64_t first = 0; first < args.rows; first += piece_rows) {
    const int64_t vectors = std::min(piece_rows, args.rows - first) * row_vectors;
    DropoutMask mask = args.mask;
    if (rate > 0.0f) {
      mask.bins += first;
      mask.positions += first;
    }
    ForBool(rate > 0.0f, [&](auto draw) {
      ForBool(args.accumulate, [&](auto accumulate) {
        DropoutKernel<V, draw(), accumulate()>
            <<<static_cast<unsigned>(cuda::CeilDiv(vectors, kThreads)), kThreads, 0, stream>>>(
                static_cast<uint32_t>(vectors), cuda::Divisor(static_cast<uint32_t>(row_vectors)),
                Draw(mask, rate), static_cast<const T*>(args.x) + first * columns,
                static_cast<T*>(args.y) + first * columns);
      });
    });
  }
}

}  // namespace

bool DropoutSupports(const DropoutSpec& spec) {
  return spec.columns > 0 && spec.columns <= kMaxColumns && spec.rate >= 0.0f && spec.rate < 1.0f;
}

void DropoutApply(const DropoutArgs& args, Stream* stream) {
  cuda::RequireSupported(DropoutSupports(args.spec) && args.mask.site < kMaxSites, "Dropout");
  cuda::RequireExtent(args.rows, "Dropout", "rows");
  cuda::ForVectorOf(args.spec.dtype, args.spec.columns, {args.x, args.y},
                    [&](auto vector) { Launch<decltype(vector)>(args, cuda::Handle(stream)); });
  cuda::CheckLaunch("Dropout");
}

}  // namespace coxswain::kernels
