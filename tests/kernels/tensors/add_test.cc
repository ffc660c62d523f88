#include "kernels/tensors/whole_tensors.h"

#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace add_test {
namespace {

TEST(AddTest, AddsAlphaTimesX) {
  const Floats x = Normal(101, 1);
  Floats y = Normal(101, 2);
  Doubles want = Double(y);
  for (size_t i = 0; i < 101; ++i) want[i] += -0.5 * x[i];
  Add({.count = 101, .alpha = -0.5f, .x = x.data(), .y = y.data()}, nullptr);
  ExpectWithin(y, want, 2 * kUnit * 10, "y");
}

}  // namespace
}  // namespace add_test
}  // namespace coxswain::kernels
