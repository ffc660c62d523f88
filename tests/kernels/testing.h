// Inputs and comparisons of the kernel tests.
//
// Tolerances count roundings: kUnit = 2^-24 is the largest relative error of one float32 operation.
// A sum of n products in any order is off by at most n kUnit sum |products|; as roundings are of
// either sign, sqrt(n) is what is met, and bounds here are the worst case unless a comment says
// more.
#ifndef COXSWAIN_TESTS_KERNELS_TESTING_H_
#define COXSWAIN_TESTS_KERNELS_TESTING_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <random>
#include <vector>

#include "kernels/dtype.h"
#include "tests/kernels/values.h"

namespace coxswain::kernels {

inline constexpr double kUnit = 0x1p-24;

inline Floats Normal(int64_t n, unsigned seed, float scale = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Floats values(Size(n));
  for (float& value : values) value = normal(random) * scale;
  return values;
}

inline double MaxAbs(const Doubles& values) {
  double largest = 0;
  for (double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

// Calls of operator new so far (allocations.cc).
int64_t Allocations();
void CountAllocation();

// Fails the test when something was allocated during its life. Invariant kernels-1.
class ExpectNoAllocation {
 public:
  ~ExpectNoAllocation() {
    // A violated contract throws, and may allocate its message.
    if (std::uncaught_exceptions() > 0) return;
    EXPECT_EQ(Allocations(), before_);
  }

 private:
  int64_t before_ = Allocations();
};

// Scratch of exactly the bytes that an op asks for, filled with NaN.
class Scratch {
 public:
  explicit Scratch(int64_t bytes) : bytes_(bytes), data_(Size(bytes / 8 + 16), std::nan("")) {}
  Workspace view() {
    char* start = reinterpret_cast<char*>(data_.data());
    const uintptr_t behind = reinterpret_cast<uintptr_t>(start) % 64;
    return {.data = start + (64 - behind) % 64, .bytes = bytes_};
  }

 private:
  int64_t bytes_;
  std::vector<double> data_;
};

}  // namespace coxswain::kernels

#endif  // COXSWAIN_TESTS_KERNELS_TESTING_H_
