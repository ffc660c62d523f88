// Holds one update of a tensor with 8-bit states against the reference in double.
#ifndef COXSWAIN_TESTS_KERNELS_ADAMW_8BIT_CHECK_H_
#define COXSWAIN_TESTS_KERNELS_ADAMW_8BIT_CHECK_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/reference/adamw.h"

namespace coxswain::kernels {

// The code is that of the value nearest to x, up to the arithmetic of DynamicStep (2^-14 of a step)
// and an error of x.
inline void ExpectNearest(const std::vector<double>& map, double x, uint8_t code, double error) {
  const uint8_t nearest = reference::NearestIndex(map, x);
  if (code == nearest) return;
  ASSERT_EQ(std::abs(code - nearest), 1) << x;
  const double gap = std::abs(map[code] - map[nearest]);
  ASSERT_LE(std::abs(x - map[code]), std::abs(x - map[nearest]) + 0x1p-13 * gap + 2 * error) << x;
}

// `gradient` is clipped already. `rounding`: what storing p may change of it, relative.
inline void ExpectUpdate(const reference::AdamWOptions<double>& o,
                         const std::vector<double>& gradient, int64_t update, double rounding,
                         const reference::AdamW8bitState<double>& before,
                         const reference::AdamW8bitState<double>& after) {
  static const std::vector<double> signed_map = reference::DynamicMapValues<double>(true);
  static const std::vector<double> unsigned_map = reference::DynamicMapValues<double>(false);
  constexpr double kFloat = 0x1p-24;
  constexpr size_t kBlock = 256;
  std::vector<reference::AdamWElement<double>> exact;
  // What m is added from: it is rounded four times, by map, decoding, product and sum.
  std::vector<double> parts(gradient.size()), largest(before.m.absmax.size());
  for (size_t i = 0; i < gradient.size(); ++i) {
    const size_t b = i / kBlock;
    exact.push_back({before.p[i], signed_map[before.m.codes[i]] * before.m.absmax[b],
                     unsigned_map[before.v.codes[i]] * before.v.absmax[b]});
    parts[i] = o.beta1 * std::abs(exact[i].m) + (1 - o.beta1) * std::abs(gradient[i]);
    largest[b] = std::max(largest[b], parts[i]);
    reference::AdamWUpdate(o, gradient[i], update, &exact[i]);
  }
  reference::AdamW8bitState<double> want = before;
  reference::AdamW8bitUpdate(o, gradient, update, reference::NearestIndex<double>, &want);
  const double count = static_cast<double>(update);
  for (size_t i = 0; i < gradient.size(); ++i) {
    const size_t b = i / kBlock;
    // Of the step m's four, half of v's, and eight of root, quotient and products.
    const double root = std::sqrt(exact[i].v / (1 - std::pow(o.beta2, count))) + o.eps;
    const double step = o.lr / (1 - std::pow(o.beta1, count)) * parts[i] / root;
    const double p_error = (2 * kFloat + rounding) * (std::abs(want.p[i]) + step);
    ASSERT_NEAR(after.p[i], want.p[i], p_error + 16 * step * kFloat) << i;
    ASSERT_NEAR(after.m.absmax[b], want.m.absmax[b], 6 * largest[b] * kFloat) << b;
    ASSERT_NEAR(after.v.absmax[b], want.v.absmax[b], 6 * want.v.absmax[b] * kFloat) << b;
    if (want.m.absmax[b] == 0) continue;
    const double m_error = 6 * kFloat * (parts[i] + largest[b]) / want.m.absmax[b];
    ExpectNearest(signed_map, exact[i].m / want.m.absmax[b], after.m.codes[i], m_error);
    ExpectNearest(unsigned_map, exact[i].v / want.v.absmax[b], after.v.codes[i], 12 * kFloat);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace coxswain::kernels

#endif  // COXSWAIN_TESTS_KERNELS_ADAMW_8BIT_CHECK_H_
