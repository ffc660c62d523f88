#include "kernels/tensors/whole_tensors.h"

#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {
namespace gpu_scale_test {
namespace {

class ScaleGpuTest : public testing::TestWithParam<DType> {};

TEST_P(ScaleGpuTest, MultipliesByTheFactorWithOneRounding) {
  const DType dtype = GetParam();
  for (const int64_t n : {0, 1, 7, 8, 9, 127, 8191, 3000003}) {
    const Floats given = Normal(n, 1, dtype);
    for (const float factor : {-0.75f, 0.3f, 0.0f, 1.0f}) {
      const DeviceTensor x(dtype, given);
      const DeviceValues<float> device_factor({factor});
      Scale({.dtype = dtype, .count = n, .factor = device_factor.data(), .x = x.data()},
            TestStream());
      const Floats scaled = x.Read();
      for (size_t i = 0; i < given.size(); ++i) {
        ASSERT_EQ(scaled[i], Round(given[i] * factor, dtype)) << i << " of " << n;
      }
    }
  }
}

TEST_P(ScaleGpuTest, AFactorOfOneTouchesNothing) {
  const DeviceValues<float> one({1.0f});
  Scale({.dtype = GetParam(), .count = 1000, .factor = one.data(), .x = nullptr}, TestStream());
  Synchronize(TestStream());
}

INSTANTIATE_TEST_SUITE_P(DTypes, ScaleGpuTest, testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace gpu_scale_test
}  // namespace coxswain::kernels
