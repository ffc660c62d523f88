#include "kernels/tensors/whole_tensors.h"

#include <limits>

#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace scale_test {
namespace {

TEST(ScaleTest, MultipliesByTheFactorWithOneRounding) {
  const Floats given = Normal(101, 1);
  for (const float factor : {-0.75f, 0.3f, 0.0f}) {
    Floats x = given;
    Scale({.count = 101, .factor = &factor, .x = x.data()}, nullptr);
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(x[i], given[i] * factor) << i;
  }
}

TEST(ScaleTest, AFactorOfOneTouchesNothing) {
  const float one = 1.0f;
  EXPECT_NO_FATAL_FAILURE(Scale({.count = 101, .factor = &one, .x = nullptr}, nullptr));
}

}  // namespace
}  // namespace scale_test
}  // namespace coxswain::kernels
