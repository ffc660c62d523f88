// The gradient of attention head by head: in the packed tensor an error of one head is as small as
// its share, and those of V outweigh the rest.
#ifndef COXSWAIN_TESTS_KERNELS_ATTENTION_HEADS_H_
#define COXSWAIN_TESTS_KERNELS_ATTENTION_HEADS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/attention.h"
#include "tests/kernels/values.h"

namespace coxswain::kernels {

// Heads count those of q, k and v together, as they lie in a row of qkv.
inline bool InHead(const AttentionSpec& spec, int64_t element, int64_t h) {
  const int64_t row = (spec.num_heads + 2 * spec.num_kv_heads) * spec.head_dim;
  return element % row / spec.head_dim == h;
}

inline double HeadNorm(const AttentionSpec& spec, const Doubles& dqkv, int64_t h) {
  double squares = 0;
  for (size_t i = 0; i < dqkv.size(); ++i) {
    if (InHead(spec, static_cast<int64_t>(i), h)) squares += dqkv[i] * dqkv[i];
  }
  return std::sqrt(squares);
}

// The error of the worst head of dQ, dK and dV, in multiples of what it may be: `bound` of the
// head's norm. dQ and dK are made of P (dP - D): where a token sees itself alone they are 0, and
// what is left are the roundings of two sums in float32 of hd products each, |dO V| below 0.64 hd
// on average, and 50 more of slope and product; all that relative to P |dO|, of which dV is made.
inline double WorstHead(const AttentionSpec& spec, const Floats& got, const Doubles& want,
                        double bound) {
  const int64_t kv_heads = spec.num_kv_heads, first_v = spec.num_heads + kv_heads;
  const double dim = static_cast<double>(spec.head_dim);
  double v_norm = 0;
  for (int64_t h = first_v; h < first_v + kv_heads; ++h) {
    v_norm += HeadNorm(spec, want, h) / static_cast<double>(kv_heads);
  }
  const double rest = (1.3 * dim * dim * spec.scale + 50) * 0x1p-24 * v_norm;
  Doubles difference(want);
  for (size_t i = 0; i < want.size(); ++i) difference[i] -= got[i];
  double worst = 0;
  for (int64_t h = 0; h < first_v + kv_heads; ++h) {
    const double may = bound * HeadNorm(spec, want, h) + rest + 1e-30;
    const double ratio = HeadNorm(spec, difference, h) / may;
    worst = std::isnan(ratio) ? HUGE_VAL : std::max(worst, ratio);
  }
  return worst;
}

// dqkv with head h of it 3 % too large.
inline Floats WithOneHeadOff(const AttentionSpec& spec, Floats dqkv, int64_t h) {
  for (size_t i = 0; i < dqkv.size(); ++i) {
    if (InHead(spec, static_cast<int64_t>(i), h)) dqkv[i] *= 1.03f;
  }
  return dqkv;
}

// Columns [first, first + width) of rows of `row` elements, in rows of `to`; the rest is 7.
inline Floats Columns(const Floats& from, int64_t row, int64_t first, int64_t width, int64_t to) {
  const auto rows = static_cast<int64_t>(from.size()) / row;
  Floats out(static_cast<size_t>(rows * to), 7.0f);
  for (int64_t t = 0; t < rows; ++t) {
    std::copy_n(from.begin() + t * row + first, width, out.begin() + t * to);
  }
  return out;
}

}  // namespace coxswain::kernels

#endif  // COXSWAIN_TESTS_KERNELS_ATTENTION_HEADS_H_
