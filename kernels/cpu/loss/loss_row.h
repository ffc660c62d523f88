// Maximum and sums of a row of logits. Sums: 16 float lanes per 1,024 elements, their totals in
// double, so that the error does not grow with the row.
#ifndef COXSWAIN_KERNELS_CPU_LOSS_LOSS_ROW_H_
#define COXSWAIN_KERNELS_CPU_LOSS_LOSS_ROW_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels::cpu {

inline constexpr int64_t kSumBlock = 1024;

struct RowSums {
  float maximum;        // NaN is passed over here and comes back through exponentials
  double exponentials;  // sum of exp(z - maximum)
  double logits;        // sum of z
};

COXSWAIN_INLINE float MaxOfRow(const float* z, int64_t n) {
  float lanes[kLanes];
  for (float& lane : lanes) lane = -std::numeric_limits<float>::infinity();
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t j = 0; j < kLanes; ++j) lanes[j] = lanes[j] < z[i + j] ? z[i + j] : lanes[j];
  }
  for (int64_t j = 0; i + j < n; ++j) lanes[j] = lanes[j] < z[i + j] ? z[i + j] : lanes[j];
  float maximum = lanes[0];
  for (float lane : lanes) maximum = maximum < lane ? lane : maximum;
  return maximum;
}

// kStore: z becomes exp(z - maximum).
template <bool kStore>
COXSWAIN_INLINE void SumBlock(float* z, int64_t n, RowSums* sums) {
  float exponentials[kLanes] = {}, logits[kLanes] = {};
  const float maximum = sums->maximum;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t j = 0; j < kLanes; ++j) {
      const float e = Exp(z[i + j] - maximum);
      logits[j] += z[i + j];
      exponentials[j] += e;
      if constexpr (kStore) z[i + j] = e;
    }
  }
  for (int64_t j = 0; i + j < n; ++j) {
    const float e = Exp(z[i + j] - maximum);
    logits[j] += z[i + j];
    exponentials[j] += e;
    if constexpr (kStore) z[i + j] = e;
  }
  sums->exponentials += SumLanes(exponentials);
  sums->logits += SumLanes(logits);
}

template <bool kStore>
COXSWAIN_INLINE RowSums SumRow(float* z, int64_t n) {
  RowSums sums{.maximum = MaxOfRow(z, n), .exponentials = 0.0, .logits = 0.0};
  for (int64_t i = 0; i < n; i += kSumBlock) {
    SumBlock<kStore>(z + i, std::min(kSumBlock, n - i), &sums);
  }
  return sums;
}

COXSWAIN_INLINE RowSums SumCappedRow(const float* logits, float k, int64_t n) {
  RowSums sums{.maximum = Cap(MaxOfRow(logits, n), k), .exponentials = 0.0, .logits = 0.0};
  float z[kSumBlock];
  for (int64_t i = 0; i < n; i += kSumBlock) {
    const int64_t count = std::min(kSumBlock, n - i);
    for (int64_t j = 0; j < count; ++j) z[j] = Cap(logits[i + j], k);
    SumBlock<false>(z, count, &sums);
  }
  return sums;
}

}  // namespace coxswain::kernels::cpu

#endif  // COXSWAIN_KERNELS_CPU_LOSS_LOSS_ROW_H_
