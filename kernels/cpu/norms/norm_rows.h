// RMSNorm of one row, shared by rms_norm.cc and qk_norm.cc. To be inlined into vectorised loops.
//   r = 1/sqrt(mean(x^2) + eps);  y = (x r) (o + w)
//   m = dy (o + w);  dx = r m - x r^3 sum(m x)/n;  dw += dy (x r)
#ifndef COXSWAIN_KERNELS_CPU_NORMS_NORM_ROWS_H_
#define COXSWAIN_KERNELS_CPU_NORMS_NORM_ROWS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels::cpu {

// Rows whose dweight is summed before the sums of such blocks are added up in order.
inline constexpr int64_t kNormBlockRows = 64;

// Returns r. y may be x.
COXSWAIN_INLINE float NormRow(const float* x, const float* weight, float offset, float eps,
                              float* y, int64_t n) {
  const float rstd = 1.0f / std::sqrt(Dot(x, x, n) / static_cast<float>(n) + eps);
  for (int64_t j = 0; j < n; ++j) y[j] = (x[j] * rstd) * (offset + weight[j]);
  return rstd;
}

// dx = (kAccumulate ? dx : 0) + the row's gradient; dx may be dy when not accumulated.
// dweight [n] is accumulated, null: not wanted.
template <bool kAccumulate>
// One loop's operands, inlined. NOLINTNEXTLINE(readability-function-size)
COXSWAIN_INLINE void NormRowBackward(const float* dy, const float* x, const float* weight,
                                     float offset, float rstd, float* dx, float* dweight,
                                     int64_t n) {
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t j = 0; j < kLanes; ++j) {
      lanes[j] += (dy[i + j] * (offset + weight[i + j])) * x[i + j];
    }
  }
  for (int64_t j = 0; i + j < n; ++j) {
    lanes[j] += (dy[i + j] * (offset + weight[i + j])) * x[i + j];
  }
  const float along = SumLanes(lanes) / static_cast<float>(n) * rstd * rstd * rstd;
  if (dweight != nullptr) {
    for (int64_t j = 0; j < n; ++j) dweight[j] += dy[j] * (x[j] * rstd);
  }
  for (int64_t j = 0; j < n; ++j) {
    const float gradient = rstd * (dy[j] * (offset + weight[j])) - along * x[j];
    dx[j] = kAccumulate ? dx[j] + gradient : gradient;
  }
}

// The row in which a backward that works in place makes its gradient.

// Row `row` of `values`, rows of `columns` float32; where `gradient` is not null its row, which
// then holds those values.
inline float* RowForGradient(void* values, void* gradient, int64_t row, int64_t columns) {
  float* held = static_cast<float*>(values) + row * columns;
  if (gradient == nullptr) return held;
  float* made = static_cast<float*>(gradient) + row * columns;
  std::copy_n(held, columns, made);
  return made;
}

}  // namespace coxswain::kernels::cpu

#endif  // COXSWAIN_KERNELS_CPU_NORMS_NORM_ROWS_H_
