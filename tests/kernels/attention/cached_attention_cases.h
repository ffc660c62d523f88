// Sequences whose rows are cached, the last of each asking: cases that both libraries are held to.
#ifndef COXSWAIN_TESTS_KERNELS_ATTENTION_CACHED_ATTENTION_CASES_H_
#define COXSWAIN_TESTS_KERNELS_ATTENTION_CACHED_ATTENTION_CASES_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "kernels/attention/cached_attention.h"
#include "tests/kernels/values.h"
#include "tests/reference/attention.h"

namespace coxswain::kernels {

struct CachedCase {
  CachedAttentionSpec spec;
  std::vector<int32_t> lengths;  // of the sequences, the asking row included; 0: padding
  Floats sinks = {};             // where spec.attention.sinks

  int64_t row() const { return PackedRow(spec.attention); }
  int64_t out_row() const { return spec.attention.num_heads * ValueDim(spec.attention); }
  int64_t key_elements() const { return cached_heads() * spec.attention.head_dim; }
  int64_t value_elements() const { return cached_heads() * ValueDim(spec.attention); }
  int64_t cached_heads() const {
    return static_cast<int64_t>(lengths.size()) * spec.length * spec.attention.num_kv_heads;
  }
  int64_t tokens() const { return std::accumulate(lengths.begin(), lengths.end(), int64_t{0}); }
  int32_t longest() const { return *std::max_element(lengths.begin(), lengths.end()); }
};

inline CachedCase MakeCachedCase(int64_t heads, int64_t kv_heads, int64_t dim, int64_t window,
                                 std::vector<int32_t> lengths) {
  CachedCase c;
  c.lengths = std::move(lengths);
  c.spec.attention = {.num_heads = heads,
                      .num_kv_heads = kv_heads,
                      .head_dim = dim,
                      .window = window,
                      .scale = 1.0f / std::sqrt(static_cast<float>(dim))};
  c.spec.length = c.longest() + 3;
  return c;
}

inline std::vector<CachedCase> CachedCases() {
  std::vector<CachedCase> cases = {
      MakeCachedCase(6, 2, 16, 0, {1, 2, 0, 63, 64, 65, 131}),
      MakeCachedCase(1, 1, 8, 0, {129}),
      MakeCachedCase(3, 3, 5, 0, {33, 4}),
      MakeCachedCase(14, 1, 7, 0, {40, 17, 1}),
      MakeCachedCase(2, 1, 256, 0, {70, 300}),
      MakeCachedCase(14, 2, 64, 0, {700}),
  };
  for (const int64_t window : {1, 2, 63, 64, 65, 199, 200, 1000}) {
    cases.push_back(MakeCachedCase(4, 2, 8, window, {200, 1, 66, 64}));
  }
  for (const float softcap : {0.5f, 50.0f}) {
    CachedCase c = MakeCachedCase(4, 2, 12, softcap > 1.0f ? 0 : 40, {100, 33, 1});
    c.spec.attention.softcap = softcap;
    cases.push_back(std::move(c));
  }
  for (const auto& [dim, value_dim] :
       {std::pair{192, 128}, std::pair{24, 16}, std::pair{16, 8}, std::pair{5, 9}}) {
    CachedCase c = MakeCachedCase(4, 2, dim, dim > 20 ? 0 : 40, {100, 0, 65, 1});
    c.spec.attention.value_dim = value_dim;
    cases.push_back(c);
    c.spec.attention.sinks = true;
    c.sinks = {0.0f, -1.5f, 2.0f, 40.0f};
    cases.push_back(std::move(c));
  }
  for (const float logit : {0.0f, -200.0f, 200.0f}) {
    CachedCase c = MakeCachedCase(14, 2, 64, logit > 0 ? 128 : 0, {700, 3, 1});
    c.spec.attention.sinks = true;
    c.sinks = Floats(14, logit);
    cases.push_back(std::move(c));
  }
  return cases;
}

// Where the rows of all sequences, laid end to end, belong.
struct CachedPlaces {
  std::vector<int32_t> sequences, positions;
};
inline CachedPlaces AllRows(const CachedCase& c) {
  CachedPlaces places;
  for (size_t s = 0; s < c.lengths.size(); ++s) {
    for (int32_t p = 0; p < c.lengths[s]; ++p) {
      places.sequences.push_back(static_cast<int32_t>(s));
      places.positions.push_back(p);
    }
  }
  return places;
}
inline CachedPlaces LastRows(const CachedCase& c) {
  CachedPlaces places;
  for (size_t s = 0; s < c.lengths.size(); ++s) {
    places.sequences.push_back(c.lengths[s] > 0 ? static_cast<int32_t>(s) : -1);
    places.positions.push_back(std::max(0, c.lengths[s] - 1));
  }
  return places;
}

// The last row of each sequence of qkv [tokens, row]; of one without rows zeros.
inline Floats LastOf(const CachedCase& c, const Floats& qkv) {
  Floats rows(c.lengths.size() * Size(c.row()), 0.0f);
  int64_t end = 0;
  for (size_t s = 0; s < c.lengths.size(); ++s) {
    end += c.lengths[s];
    if (c.lengths[s] == 0) continue;
    std::copy_n(qkv.begin() + (end - 1) * c.row(), c.row(),
                rows.begin() + static_cast<int64_t>(s) * c.row());
  }
  return rows;
}

// out [sequences, out_row] of the last rows, from the formulas over whole sequences.
inline Doubles CachedReference(const CachedCase& c, const Floats& qkv) {
  const AttentionSpec& spec = c.spec.attention;
  const Doubles x = Double(qkv), sinks = Double(c.sinks);
  Doubles want(c.lengths.size() * Size(c.out_row()), 0.0);
  int64_t start = 0;
  for (size_t s = 0; s < c.lengths.size(); ++s) {
    const int64_t length = c.lengths[s];
    if (length == 0) continue;
    const reference::AttentionShape<double> shape{length,        spec.num_heads, spec.num_kv_heads,
                                                  spec.head_dim, spec.window,    spec.scale,
                                                  spec.softcap,  spec.value_dim};
    Doubles out(Size(length * c.out_row())), lse(Size(length * spec.num_heads));
    reference::Attention(shape, &x[Size(start * c.row())], out.data(), lse.data(),
                         spec.sinks ? sinks.data() : nullptr);
    std::copy_n(out.end() - c.out_row(), c.out_row(),
                want.begin() + static_cast<int64_t>(s) * c.out_row());
    start += length;
  }
  return want;
}

// |got - want| / |want|; where a sink leaves nothing to the keys, float32 has zeros.
inline double CachedError(const Floats& got, const Doubles& want) {
  double squares = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    squares += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return std::sqrt(squares / std::max(norm, 1e-60));
}

// As in attention_test.cc: a score is off by (hd + 2) u 5 hd scale, a probability by twice that, 8
// u of exponential and division and n u of its sum; the product with V adds n u. `u`: 2^-24.
inline double CachedBound(const CachedCase& c) {
  const double dim = static_cast<double>(c.spec.attention.head_dim);
  const double score = (dim + 2) * 5 * dim * c.spec.attention.scale;
  return 4 * (2 * std::sqrt(dim) / dim * score + 8 + c.longest()) * 0x1p-24;
}

}  // namespace coxswain::kernels

#endif  // COXSWAIN_TESTS_KERNELS_ATTENTION_CACHED_ATTENTION_CASES_H_
