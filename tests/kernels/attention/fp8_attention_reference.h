// Attention in FP8 (kernels/attention/fp8_attention.h) in float64, a row at a time, and how far a
// sum in float32 may be from it: where 256 P lies so near the middle of two codes that rounding in
// float32 chooses the other, by the whole step between them.
#ifndef COXSWAIN_TESTS_KERNELS_ATTENTION_FP8_ATTENTION_REFERENCE_H_
#define COXSWAIN_TESTS_KERNELS_ATTENTION_FP8_ATTENTION_REFERENCE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/fp8_attention.h"
#include "tests/kernels/values.h"
#include "tests/reference/fp8.h"

namespace coxswain::kernels {

struct Fp8AttentionWant {
  Doubles out, lse;          // as AttentionForwardArgs has them, lse [nq, T]
  Doubles out_may, lse_may;  // be off by
};

class Fp8AttentionReference {
 public:
  // qkv: packed rows. sinks: [nq]; empty: none.
  Fp8AttentionReference(const AttentionSpec& spec, const Floats& qkv, const Floats& sinks,
                        const std::vector<int32_t>& lengths)
      : spec_(spec), qkv_(qkv), sinks_(sinks) {
    tokens_ = static_cast<int64_t>(qkv.size()) / PackedRow(spec);
    want_.out.resize(Size(tokens_ * spec.num_heads * ValueDim(spec)));
    want_.lse.resize(Size(tokens_ * spec.num_heads));
    want_.out_may = want_.out;
    want_.lse_may = want_.lse;
    int64_t start = 0;
    for (const int32_t length : lengths) {
      for (int64_t h = 0; h < spec.num_heads; ++h) {
        const Tiles tiles = TilesOf(start, length, h / (spec.num_heads / spec.num_kv_heads));
        for (int64_t i = 0; i < length; ++i) Row(tiles, start, h, i);
      }
      start += length;
    }
  }
  const Fp8AttentionWant& want() const { return want_; }

  static double Scale(double amax) {
    int exponent = -40;
    while (amax > std::ldexp(448.0, exponent)) ++exponent;
    return std::ldexp(1.0, exponent);
  }

 private:
  static constexpr double kUnitOf32 = 0x1p-24;
  static constexpr int64_t kTile = kFp8AttentionKeys;

  struct Codes {
    Doubles values;  // of codes
    double scale = 0;
  };
  // Of rows [first, last), each [width] from `column` on.
  Codes Quantized(int64_t first, int64_t last, int64_t column, int64_t width) const {
    Codes codes;
    double amax = 0;
    const auto at = [&](int64_t t, int64_t c) {
      return static_cast<double>(qkv_[Size(t * PackedRow(spec_) + column + c)]);
    };
    for (int64_t t = first; t < last; ++t) {
      for (int64_t c = 0; c < width; ++c) amax = std::max(amax, std::abs(at(t, c)));
    }
    codes.scale = Scale(amax);
    for (int64_t t = first; t < last; ++t) {
      for (int64_t c = 0; c < width; ++c) {
        codes.values.push_back(Rounded(at(t, c) / codes.scale));
      }
    }
    return codes;
  }
  // The number of the code of x.
  static double Rounded(double x) {
    static const Doubles numbers = [] {
      const reference::Fp8Numbers e4m3;
      Doubles values;
      for (int code = 0; code <= e4m3.LastCode(); ++code) values.push_back(e4m3.Value(code));
      return values;
    }();
    const double size = std::abs(x);
    const auto above = std::upper_bound(numbers.begin(), numbers.end(), size);
    if (above == numbers.end()) return std::copysign(numbers.back(), x);
    const auto below = above - 1;
    const bool even = (below - numbers.begin()) % 2 == 0;
    const bool down = size - *below < *above - size || (size - *below == *above - size && even);
    return std::copysign(down ? *below : *above, x);
  }

  // Of the tiles of a document, of one kv head.
  struct Tiles {
    std::vector<Codes> keys, values;
  };
  Tiles TilesOf(int64_t start, int64_t length, int64_t g) const {
    const int64_t width = spec_.head_dim, value_width = ValueDim(spec_);
    Tiles tiles;
    for (int64_t tile = 0; tile < length; tile += kTile) {
      const int64_t from = start + tile, to = start + std::min(length, tile + kTile);
      tiles.keys.push_back(Quantized(from, to, (spec_.num_heads + g) * width, width));
      tiles.values.push_back(Quantized(
          from, to, (spec_.num_heads + spec_.num_kv_heads) * width + g * value_width, value_width));
    }
    return tiles;
  }

  struct State {
    double maximum = -HUGE_VAL, sum = 0;
    Doubles out, sizes, may;  // O, the sum of its sizes, what choices of codes may change
  };

  void Row(const Tiles& tiles, int64_t start, int64_t h, int64_t i) {
    const int64_t width = spec_.head_dim, value_width = ValueDim(spec_);
    const int64_t first = spec_.window == 0 ? 0 : std::max<int64_t>(0, i - spec_.window + 1);
    const Codes q = Quantized(start + i, start + i + 1, h * width, width);
    State state;
    state.out.resize(Size(value_width));
    state.sizes = state.may = state.out;
    double off = 0;  // of a score
    for (int64_t tile = first / kTile; tile <= i / kTile; ++tile) {
      AddTile(q, tiles.keys[Size(tile)], tiles.values[Size(tile)],
              std::max<int64_t>(0, first - tile * kTile), std::min(kTile, i + 1 - tile * kTile),
              &off, &state);
    }
    Finish(h, start + i, i + 1 - first, off, state);
  }

  void AddTile(const Codes& q, const Codes& k, const Codes& v, int64_t begin, int64_t end,
               double* off, State* state) {
    const int64_t width = spec_.head_dim, value_width = ValueDim(spec_);
    const double scale = static_cast<double>(spec_.scale) * q.scale * k.scale;
    Doubles scores;
    double maximum = state->maximum;
    for (int64_t j = begin; j < end; ++j) {
      double score = 0, size = 0;
      for (int64_t c = 0; c < width; ++c) {
        const double product = q.values[Size(c)] * k.values[Size(j * width + c)];
        score += product;
        size += std::abs(product);
      }
      scores.push_back(scale * score);
      // `width` sums, the scale and the difference to the maximum, which is off as well.
      *off = std::max(*off, 2 * static_cast<double>(width + 3) * kUnitOf32 * scale * size);
      maximum = std::max(maximum, scores.back());
    }
    const double shrink = std::exp(state->maximum - maximum), relative = *off + kExp;
    state->sum *= shrink;
    for (Doubles* sums : {&state->out, &state->sizes, &state->may}) {
      for (double& sum : *sums) sum *= shrink;
    }
    for (int64_t j = begin; j < end; ++j) {
      const double p = std::exp(scores[Size(j - begin)] - maximum), code = Rounded(256 * p);
      const double step = Rounded(256 * p * (1 + relative)) - Rounded(256 * p * (1 - relative));
      state->sum += p;
      for (int64_t c = 0; c < value_width; ++c) {
        const double value = v.scale * v.values[Size(j * value_width + c)];
        state->out[Size(c)] += code * value;
        state->sizes[Size(c)] += code * std::abs(value);
        state->may[Size(c)] += step * std::abs(value);
      }
    }
    state->maximum = maximum;
  }

  void Finish(int64_t h, int64_t token, int64_t keys, double off, const State& state) {
    double maximum = state.maximum, sum = state.sum, shrink = 1;
    if (!sinks_.empty()) {
      const double sink = static_cast<double>(sinks_[Size(h)]);
      maximum = std::max(maximum, sink);
      shrink = std::exp(state.maximum - maximum);
      sum = sum * shrink + std::exp(sink - maximum);
    }
    // Sums of `keys` terms, and a factor of each tile, of the sink and of the end.
    const double tiles = static_cast<double>(keys / kTile + 4);
    const double relative =
        static_cast<double>(keys + 8) * kUnitOf32 + tiles * (off + kExp + 4 * kUnitOf32);
    const double lse = maximum + std::log(sum);
    want_.lse[Size(h * tokens_ + token)] = lse;
    want_.lse_may[Size(h * tokens_ + token)] =
        off + relative + 4 * kUnitOf32 * (std::abs(maximum) + std::abs(lse));
    const int64_t width = ValueDim(spec_), at = (token * spec_.num_heads + h) * width;
    for (int64_t c = 0; c < width; ++c) {
      const double factor = shrink / (256 * sum);
      want_.out[Size(at + c)] = state.out[Size(c)] * factor;
      want_.out_may[Size(at + c)] =
          (state.may[Size(c)] + 2 * relative * state.sizes[Size(c)]) * factor;
    }
  }

  static constexpr double kExp = 0x1p-22;  // relative error of e^x
  const AttentionSpec spec_;
  const Floats& qkv_;
  const Floats& sinks_;
  int64_t tokens_ = 0;
  Fp8AttentionWant want_;
};

}  // namespace coxswain::kernels

#endif  // COXSWAIN_TESTS_KERNELS_ATTENTION_FP8_ATTENTION_REFERENCE_H_
