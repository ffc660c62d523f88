// The head with its loss: problems that both libraries are held to, and the fp64 results with what
// an op may be off by.
//
// With u = 2^-24 and v the largest relative error of a rounding to the type of x (u in float32): a
// logit is off by E = H u sum |a x W| + v |z|; with softcap the slope of tanh is at most 1, and the
// function is off by 12 k u. Exponentials and their sum are within 300 u (kernels/cpu and cuda have
// the counts), so lse is off by E + 300 u, and a probability by p (2 E + 600 u). The gradient g = p
// (1 + 2 c lse) - ... moves by that times 1 + 2 c |lse|, and by 2 c p (E + 300 u) with lse; times
// the slope 1 - (z / k)^2, which moves by 2 E / k. dz is rounded once. A sum of n products adds n u
// times the sum of their sizes.
#ifndef COXSWAIN_TESTS_KERNELS_LOSS_CUT_CROSS_ENTROPY_CASES_H_
#define COXSWAIN_TESTS_KERNELS_LOSS_CUT_CROSS_ENTROPY_CASES_H_

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/loss/cut_cross_entropy.h"
#include "tests/kernels/values.h"
#include "tests/reference/cross_entropy.h"

namespace coxswain::kernels {

struct CutProblem {
  CutCrossEntropySpec spec;
  std::vector<int32_t> targets;
  Floats x, weight;         // [N, H], [V, H], values of the spec's dtype
  Floats row_weights = {};  // empty: none
  float scale = 0.125f;

  int64_t rows() const { return static_cast<int64_t>(targets.size()); }
  std::string Describe() const {
    return std::to_string(rows()) + " x " + std::to_string(spec.hidden) + " x " +
           std::to_string(spec.vocab);
  }
};

struct CutResult {
  Floats loss, nll, hits, statistics, dx, dweight;
};

// Extents around the tiles of 128 x 256 and the steps of 64, each with every option.
inline std::vector<CutCrossEntropySpec> CutOptions(int64_t hidden, int64_t vocab) {
  return {{.hidden = hidden, .vocab = vocab},
          {.hidden = hidden, .vocab = vocab, .logit_scale = 0.5f, .label_smoothing = 0.1f},
          {.hidden = hidden, .vocab = vocab, .z_loss = 1e-2f},
          {.hidden = hidden,
           .vocab = vocab,
           .logit_scale = 2.0f,
           .label_smoothing = 0.3f,
           .z_loss = 1e-3f,
           .softcap = 5.0f}};
}
struct CutExtents {
  int64_t rows, hidden, vocab;
};
inline const std::vector<CutExtents>& CutShapes() {
  static const std::vector<CutExtents> shapes = {
      {1, 8, 1},    {3, 16, 2},     {5, 13, 97},     {7, 64, 255},   {64, 72, 256},
      {65, 8, 257}, {130, 64, 384}, {129, 136, 385}, {257, 64, 513}, {300, 40, 1000}};
  return shapes;
}

// Some rows ignored, the first and the last column among the targets.
inline std::vector<int32_t> CutTargets(int64_t rows, int64_t vocab) {
  std::vector<int32_t> targets;
  for (int64_t i = 0; i < rows; ++i) {
    targets.push_back(i % 5 == 3 ? kIgnoreTarget
                                 : static_cast<int32_t>((i * 7919 + vocab - 1) % vocab));
  }
  return targets;
}

// Values with what each may be off by.
struct Bounded {
  Doubles value, bound;

  void Add(double of, double within) {
    value.push_back(of);
    bound.push_back(within);
  }
};
inline void ExpectBounded(const Floats& got, const Bounded& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.value.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_LE(std::abs(got[i] - want.value[i]), want.bound[i])
        << what << "[" << i << "] is " << got[i] << ", expected " << want.value[i];
  }
}

struct CutExpected {
  Bounded loss, nll, dx, dweight;
};

class CutReference {
 public:
  CutReference(const CutProblem& problem, double rounding) : p_(problem), v_(rounding) {
    const size_t matrix = Size(p_.spec.vocab * p_.spec.hidden), input = p_.x.size();
    sums_.dx = {Doubles(input), Doubles(input)};
    sums_.dweight = {Doubles(matrix), Doubles(matrix)};
    for (int64_t row = 0; row < p_.rows(); ++row) AddRow(row);
    const double weight_rounding = p_.spec.weight_gradient_dtype == DType::kFloat32 ? kU : 0x1p-8;
    for (size_t i = 0; i < matrix; ++i) {
      sums_.dweight.bound[i] += weight_rounding * std::abs(sums_.dweight.value[i]) + 1e-30;
    }
  }
  const CutExpected& expected() const { return sums_; }

 private:
  static constexpr double kU = 0x1p-24;

  void AddRow(int64_t row) {
    const int32_t target = p_.targets[Size(row)];
    if (target == kIgnoreTarget) {
      sums_.loss.Add(0, 0);
      sums_.nll.Add(0, 0);
      return;
    }
    const CutCrossEntropySpec& spec = p_.spec;
    Doubles logits(Size(spec.vocab)), dz(Size(spec.vocab));
    double off = 0, mean = 0;
    for (int64_t v = 0; v < spec.vocab; ++v) {
      double sum = 0, size = 0;
      for (int64_t h = 0; h < spec.hidden; ++h) {
        const double product = double{X(row, h)} * W(v, h) * spec.logit_scale;
        sum += product;
        size += std::abs(product);
      }
      logits[Size(v)] = sum;
      off = std::max(off, static_cast<double>(spec.hidden + 2) * kU * size + v_ * std::abs(sum));
      mean += std::abs(sum) / static_cast<double>(spec.vocab);
    }
    off += 12 * spec.softcap * kU;
    const reference::CrossEntropyOptions<double> options{spec.label_smoothing, spec.z_loss,
                                                         spec.softcap};
    const auto want = reference::CrossEntropy(options, logits.data(), spec.vocab, target);
    const double lse_off = off + 300 * kU, slope = 1 + 2 * spec.z_loss * std::abs(want.lse);
    const double c = spec.z_loss, top = std::abs(want.lse) + std::abs(logits[Size(target)]);
    sums_.nll.Add(want.nll, 2 * lse_off + 2 * kU * top);
    sums_.loss.Add(want.loss, 2 * lse_off * slope + c * lse_off * lse_off + off +
                                  kU * (2 * top * slope + 80 * mean + std::abs(want.loss)));
    const double weight = p_.row_weights.empty() ? 1.0 : double{p_.row_weights[Size(row)]};
    const double scale = p_.scale * weight;
    reference::CrossEntropyBackward(options, logits.data(), spec.vocab, int64_t{target}, scale,
                                    dz.data());
    for (int64_t v = 0; v < spec.vocab; ++v) {
      const double z = reference::Softcap(options, logits[Size(v)]);
      const double p = std::exp(z - want.lse), at = std::abs(dz[Size(v)]);
      const double of_slope =
          spec.softcap > 0 ? 2.2 * (off + 12 * kU * spec.softcap) / spec.softcap : 0;
      const double whole = p * slope + (v == target ? 1 : 0) + spec.label_smoothing;
      const double moved = 1.05 * (p * slope * (2 * off + 600 * kU) + 2 * c * p * lse_off) +
                           whole * (of_slope + 20 * kU);
      AddProducts(row, v, dz[Size(v)], std::abs(scale) * moved + 1.01 * v_ * at);
    }
  }
  void AddProducts(int64_t row, int64_t v, double dz, double off) {
    const CutCrossEntropySpec& spec = p_.spec;
    const double a = spec.logit_scale, total = std::abs(dz) + off;
    const double of_x = static_cast<double>(spec.vocab + 64) * kU;
    const double of_w = static_cast<double>(p_.rows() + 64) * kU;
    for (int64_t h = 0; h < spec.hidden; ++h) {
      const size_t input = Size(row * spec.hidden + h), weight = Size(v * spec.hidden + h);
      const double x = X(row, h), w = W(v, h);
      sums_.dx.value[input] += a * dz * w;
      sums_.dx.bound[input] += a * std::abs(w) * (off + total * of_x);
      sums_.dweight.value[weight] += a * dz * x;
      sums_.dweight.bound[weight] += a * std::abs(x) * (off + total * of_w);
    }
  }
  float X(int64_t row, int64_t h) const { return p_.x[Size(row * p_.spec.hidden + h)]; }
  float W(int64_t v, int64_t h) const { return p_.weight[Size(v * p_.spec.hidden + h)]; }

  const CutProblem& p_;
  const double v_;
  CutExpected sums_;
};

inline void ExpectCut(const CutProblem& problem, const CutResult& got, const CutExpected& want) {
  const std::string what = problem.Describe();
  ExpectBounded(got.loss, want.loss, "loss of " + what);
  ExpectBounded(got.nll, want.nll, "nll of " + what);
  ExpectBounded(got.dx, want.dx, "dx of " + what);
  ExpectBounded(got.dweight, want.dweight, "dW of " + what);
}

inline bool SameCutBits(const CutResult& a, const CutResult& b) {
  return SameBits(a.loss, b.loss) && SameBits(a.nll, b.nll) && SameBits(a.hits, b.hits) &&
         SameBits(a.statistics, b.statistics) && SameBits(a.dx, b.dx) &&
         SameBits(a.dweight, b.dweight);
}

// Invariant kernels-6: an ignored row depends on nothing, a NaN reaches its own row alone.
// `compute` gives the results of a problem whose weight is frozen; rows 3 and 4 of the problem are
// an ignored one and another.
template <typename Compute>
void ExpectIgnoredRowsAndNansStayAlone(CutProblem p, const Compute& compute) {
  const CutResult clean = compute(p);
  const size_t hidden = Size(p.spec.hidden);
  p.x[3 * hidden] = std::numeric_limits<float>::quiet_NaN();
  const CutResult ignored = compute(p);
  EXPECT_TRUE(SameBits(ignored.loss, clean.loss) && SameBits(ignored.dx, clean.dx));
  for (size_t h = 0; h < hidden; ++h) EXPECT_EQ(ignored.dx[3 * hidden + h], 0.0f);
  EXPECT_EQ(ignored.loss[3], 0.0f);
  EXPECT_EQ(ignored.nll[3], 0.0f);
  EXPECT_EQ(ignored.hits[3], 0.0f);
  p.x[4 * hidden] = p.x[3 * hidden];
  const CutResult spoiled = compute(p);
  for (size_t i = 0; i < spoiled.loss.size(); ++i) {
    if (i == 4) continue;
    EXPECT_EQ(spoiled.loss[i], clean.loss[i]) << i;
  }
  EXPECT_TRUE(std::isnan(spoiled.loss[4]) && std::isnan(spoiled.dx[4 * hidden]));
  EXPECT_EQ(spoiled.hits[4], 0.0f);
}

}  // namespace coxswain::kernels

#endif  // COXSWAIN_TESTS_KERNELS_LOSS_CUT_CROSS_ENTROPY_CASES_H_
