// The gradient of attention head by head: in the packed tensor an error of one head is as small as
// its share, and those of V outweigh the rest.
#ifndef COXSWAIN_TESTS_KERNELS_ATTENTION_HEADS_H_
#define COXSWAIN_TESTS_KERNELS_ATTENTION_HEADS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/attention/attention.h"
#include "tests/kernels/values.h"

namespace coxswain::kernels {

// Heads count those of q, k and v together, as they lie in a row of qkv.
inline int64_t AllHeads(const AttentionSpec& spec) {
  return spec.num_heads + 2 * spec.num_kv_heads;
}
inline bool InHead(const AttentionSpec& spec, int64_t element, int64_t h) {
  const int64_t first_v = spec.num_heads + spec.num_kv_heads;
  const int64_t column = element % PackedRow(spec), values = column - first_v * spec.head_dim;
  return (values < 0 ? column / spec.head_dim : first_v + values / ValueDim(spec)) == h;
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
// what is left are the roundings of two sums in float32 of vd products each, |dO V| below 0.64 vd
// on average, and 50 more of slope and product; all that relative to P |dO|, of which dV is made: a
// head of it has vd elements, one of dQ hd.
inline double WorstHead(const AttentionSpec& spec, const Floats& got, const Doubles& want,
                        double bound) {
  const int64_t kv_heads = spec.num_kv_heads, first_v = spec.num_heads + kv_heads;
  const double dim = static_cast<double>(spec.head_dim);
  const double values = static_cast<double>(ValueDim(spec));
  double v_norm = 0;
  for (int64_t h = first_v; h < first_v + kv_heads; ++h) {
    v_norm += HeadNorm(spec, want, h) / static_cast<double>(kv_heads);
  }
  const double rest =
      (1.3 * values * values * spec.scale + 50) * std::sqrt(dim / values) * 0x1p-24 * v_norm;
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

// What a head's gradient of its sink sums over the tokens, without signs: exp(s - lse) times the
// sum of |dO O|. An error of O or dO, or of a sum, is relative to that. lse(t, h): of a row. 1e-30:
// where a sink leaves nothing to the keys, float32 has zeros.
template <typename Lse>
Doubles SinkTerms(const AttentionSpec& spec, const Floats& sinks, const Doubles& out,
                  const Floats& dout, const Lse& lse) {
  const int64_t dim = ValueDim(spec), row = spec.num_heads * dim;
  Doubles terms(sinks.size(), 0.0);
  for (int64_t i = 0; !sinks.empty() && i < static_cast<int64_t>(out.size()); ++i) {
    const int64_t t = i / row, h = i % row / dim;
    terms[Size(h)] += std::exp(sinks[Size(h)] - lse(t, h)) * std::abs(out[Size(i)] * dout[Size(i)]);
  }
  return terms;
}
inline void ExpectSinkGradient(const Floats& got, const Doubles& want, const Doubles& terms,
                               double bound) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t h = 0; h < want.size(); ++h) {
    EXPECT_LE(std::abs(got[h] - want[h]), bound * terms[h] + 1e-30)
        << "sink of head " << h << ": " << got[h] << ", expected " << want[h];
  }
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
