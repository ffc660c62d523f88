#include "kernels/tensors/whole_tensors.h"

#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {
namespace gpu_add_test {
namespace {

class AddGpuTest : public testing::TestWithParam<DType> {};

// Two roundings of float32 and one of the type.
TEST_P(AddGpuTest, AddsScaledForEveryTail) {
  const DType dtype = GetParam();
  for (const int64_t n : {0, 1, 7, 8, 9, 127, 8191, 100003}) {
    const Floats x = Normal(n, 1, dtype), y = Normal(n, 2, dtype);
    Doubles want;
    double largest = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      want.push_back(y[i] + 0.75 * x[i]);
      largest = std::max(largest, std::abs(want.back()));
    }
    const DeviceTensor device_x(dtype, x), device_y(dtype, y);
    Add({.dtype = dtype,
         .x_dtype = dtype,
         .count = n,
         .alpha = 0.75f,
         .x = device_x.data(),
         .y = device_y.data()},
        TestStream());
    ExpectWithin(device_y.Read(), want, 2 * kUnit(dtype) * largest, Name(dtype));
  }
}

TEST(AddRangeGpuTest, AddsBfloat16IntoFloat32) {
  for (const int64_t n : {1, 3, 4, 127, 100003}) {
    const Floats x = Normal(n, 1, DType::kBFloat16), y = Normal(n, 2, DType::kFloat32);
    const DeviceTensor device_x(DType::kBFloat16, x), device_y(DType::kFloat32, y);
    Add({.x_dtype = DType::kBFloat16, .count = n, .x = device_x.data(), .y = device_y.data()},
        TestStream());
    const Floats sum = device_y.Read();
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(sum[i], y[i] + x[i]) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, AddGpuTest, testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace gpu_add_test
}  // namespace coxswain::kernels
