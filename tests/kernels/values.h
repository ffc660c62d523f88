// What the kernel tests of both libraries compare: values on the host.
#ifndef COXSWAIN_TESTS_KERNELS_VALUES_H_
#define COXSWAIN_TESTS_KERNELS_VALUES_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace coxswain::kernels {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

inline size_t Size(int64_t n) { return static_cast<size_t>(n); }

// Uniform in [0, 1), 24 bits of a word of Philox.
inline float PhiloxUniform(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

// Rows of `columns` values, moved `stride` apart; what lies between them is `between`.
inline Floats SpreadRows(const Floats& rows, int64_t columns, int64_t stride, float between) {
  Floats spread(rows.size() / Size(columns) * Size(stride), between);
  for (size_t i = 0; i < rows.size(); ++i) {
    spread[i / Size(columns) * Size(stride) + i % Size(columns)] = rows[i];
  }
  return spread;
}

inline Doubles Double(const Floats& values) { return {values.begin(), values.end()}; }

// |actual - expected| <= bound for every element; NaN never passes.
inline void ExpectWithin(const Floats& actual, const Doubles& expected, double bound,
                         std::string_view what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_LE(std::abs(actual[i] - expected[i]), bound)
        << what << "[" << i << "] is " << actual[i] << ", expected " << expected[i];
  }
}

// NaN equals NaN; -0 differs from 0.
inline bool SameBits(const Floats& a, const Floats& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace coxswain::kernels

#endif  // COXSWAIN_TESTS_KERNELS_VALUES_H_
