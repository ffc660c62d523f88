#include "kernels/tensors/whole_tensors.h"

#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {
namespace gpu_reduce_test {
namespace {

double DeviceSum(const Floats& values, const double* before) {
  const DeviceTensor device(DType::kFloat32, values);
  const DeviceValues<double> sum(std::vector<double>{before != nullptr ? *before : std::nan("")});
  Sum({.count = static_cast<int64_t>(values.size()),
       .values = device.floats(),
       .sum = sum.data(),
       .accumulate = before != nullptr},
      TestStream());
  return sum.Read()[0];
}

// Doubles of 24 significant bits below 2^13 terms: bounded by n 2^-53 of the magnitudes.
TEST(SumGpuTest, AddsInDoubleForEveryCount) {
  for (const int64_t n : {0, 1, 31, 1023, 1024, 1025, 8192, 100003}) {
    const Floats values = Normal(n, 1, DType::kFloat32);
    double want = 0, magnitude = 0;
    for (const float value : values) {
      want += value;
      magnitude += std::abs(value);
    }
    const double bound = static_cast<double>(n) * 0x1p-52 * magnitude;
    EXPECT_NEAR(DeviceSum(values, nullptr), want, bound) << n;
    EXPECT_EQ(DeviceSum(values, nullptr), DeviceSum(values, nullptr));
    const double before = 5.0;
    EXPECT_NEAR(DeviceSum(values, &before), want + 5.0, bound + 0x1p-48) << n;
  }
  EXPECT_TRUE(std::isnan(DeviceSum({1.0f, std::nanf(""), 2.0f}, nullptr)));
}

}  // namespace
}  // namespace gpu_reduce_test
}  // namespace coxswain::kernels
