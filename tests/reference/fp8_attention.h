// The forward of kernels/attention/fp8_attention.h in float64, with its codes: one document, all
// heads.
#ifndef COXSWAIN_TESTS_REFERENCE_FP8_ATTENTION_H_
#define COXSWAIN_TESTS_REFERENCE_FP8_ATTENTION_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/reference/attention.h"

namespace coxswain::reference {

// The value of the code in E4M3 that x takes.
inline double RoundToE4m3(double x) {
  constexpr int kSmallestExponent = -6;
  if (x == 0 || std::isnan(x)) return x;
  const int exponent = std::max(std::ilogb(x), kSmallestExponent);
  const double step = std::ldexp(1.0, exponent - 3);
  return std::copysign(std::min(std::nearbyint(std::abs(x) / step) * step, 448.0), x);
}

// 2^e, the smallest with amax <= 448 2^e and e >= -40.
inline double PowerOfTwoScale(double amax) {
  if (!std::isfinite(amax)) return std::numeric_limits<double>::quiet_NaN();
  double scale = std::ldexp(1.0, -40);
  while (amax > 448 * scale) scale *= 2;
  return scale;
}

class Fp8Attention {
 public:
  static constexpr int64_t kTile = 192;

  // qkv [L, row()] and out [L, nq vd] are values of `shape`, lse [nq, L]; sinks [nq] or null.
  Fp8Attention(const AttentionShape<double>& shape, const double* qkv, const double* sinks)
      : s_(shape), rounded_(qkv, qkv + shape.length * shape.row()), sinks_(sinks) {
    for (int64_t h = 0; h < s_.num_heads; ++h) {
      for (int64_t i = 0; i < s_.length; ++i) Round(s_.q(i, h), s_.head_dim, 1);
    }
    for (int64_t h = 0; h < s_.num_heads; h += s_.num_heads / s_.num_kv_heads) {
      for (int64_t first = 0; first < s_.length; first += kTile) {
        const int64_t rows = std::min(kTile, s_.length - first);
        Round(s_.k(first, h), s_.head_dim, rows);
        Round(s_.v(first, h), s_.values(), rows);
      }
    }
  }

  void Forward(double* out, double* lse) const {
    for (int64_t h = 0; h < s_.num_heads; ++h) {
      for (int64_t i = 0; i < s_.length; ++i) {
        lse[h * s_.length + i] = Row(h, i, out + s_.out(i, h));
      }
    }
  }

 private:
  // Of rows from element `first` on, with one scale: what their codes stand for.
  void Round(int64_t first, int64_t width, int64_t rows) {
    double amax = 0;
    for (int64_t i = 0; i < rows * width; ++i) {
      const double size = std::abs(At(first, width, i));
      amax = std::isnan(size) || std::isnan(amax) ? NAN : std::max(amax, size);
    }
    const double scale = PowerOfTwoScale(amax);
    for (int64_t i = 0; i < rows * width; ++i) {
      double& x = At(first, width, i);
      x = scale * RoundToE4m3(x / scale);
    }
  }
  double& At(int64_t first, int64_t width, int64_t i) {
    return rounded_[static_cast<size_t>(first + i / width * s_.row() + i % width)];
  }

  // Writes a row of out and returns its lse.
  double Row(int64_t h, int64_t i, double* out) const {
    const double* qkv = rounded_.data();
    double maximum = -HUGE_VAL, total = 0;
    std::fill(out, out + s_.values(), 0.0);
    for (int64_t first = s_.first_key(i) / kTile * kTile; first <= i; first += kTile) {
      const int64_t begin = std::max(first, s_.first_key(i)), end = std::min(first + kTile, i + 1);
      std::vector<double> p;
      for (int64_t j = begin; j < end; ++j) p.push_back(MakeScore(s_, qkv, h, i, j).value);
      const double largest = std::max(maximum, *std::max_element(p.begin(), p.end()));
      const double shrink = std::exp(maximum - largest);
      maximum = largest;
      total *= shrink;
      for (int64_t c = 0; c < s_.values(); ++c) out[c] *= shrink;
      for (int64_t j = begin; j < end; ++j) {
        const double probability = std::exp(p[static_cast<size_t>(j - begin)] - maximum);
        total += probability;
        const double code = RoundToE4m3(256 * probability) / 256;
        for (int64_t c = 0; c < s_.values(); ++c) {
          out[c] += code * qkv[s_.v(j, h) + c];
        }
      }
    }
    return End(h, maximum, total, out);
  }

  double End(int64_t h, double maximum, double total, double* out) const {
    const double largest = sinks_ == nullptr ? maximum : std::max(maximum, sinks_[h]);
    const double all = total * std::exp(maximum - largest) +
                       (sinks_ == nullptr ? 0.0 : std::exp(sinks_[h] - largest));
    for (int64_t c = 0; c < s_.values(); ++c) out[c] *= std::exp(maximum - largest) / all;
    return largest + std::log(all);
  }

  const AttentionShape<double> s_;
  std::vector<double> rounded_;
  const double* sinks_;
};

}  // namespace coxswain::reference

#endif  // COXSWAIN_TESTS_REFERENCE_FP8_ATTENTION_H_
