#include "kernels/tensors/whole_tensors.h"

#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace reduce_test {
namespace {

TEST(SumTest, AddsInDouble) {
  Floats values(1000003, 1.0f);
  values[0] = 0x1p-30f;
  double sum = 5.0;
  Sum({.count = 1000003, .values = values.data(), .sum = &sum}, nullptr);
  EXPECT_EQ(sum, 1000002.0 + 0x1p-30);
  Sum({.count = 3, .values = values.data(), .sum = &sum, .accumulate = true}, nullptr);
  EXPECT_EQ(sum, 1000004.0 + 0x1p-29);
  Sum({.count = 0, .values = nullptr, .sum = &sum}, nullptr);
  EXPECT_EQ(sum, 0.0);
}

}  // namespace
}  // namespace reduce_test
}  // namespace coxswain::kernels
