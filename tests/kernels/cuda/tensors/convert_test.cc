#include "kernels/tensors/whole_tensors.h"

#include <limits>

#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {
namespace gpu_convert_test {
namespace {

Floats Converted(DType from, DType to, const Floats& values) {
  const auto count = static_cast<int64_t>(values.size());
  const DeviceTensor in(from, values), out(to, count);
  Convert({.from = from, .to = to, .count = count, .in = in.data(), .out = out.data()},
          TestStream());
  return out.Read();
}

TEST(ConvertGpuTest, RoundsToNearestEvenForEveryTail) {
  for (const int64_t n : {0, 1, 2, 3, 4, 5, 1023, 4096, 100003}) {
    Floats values = Normal(n, 1, DType::kFloat32), rounded;
    const Floats special = {0x1.01p0f, 0x1.03p0f, -0.0f, 1e-40f, 3.4e38f, -INFINITY};
    for (size_t i = 0; i < special.size() && i < values.size(); ++i) values[i] = special[i];
    for (const float value : values) rounded.push_back(Round(value, DType::kBFloat16));
    EXPECT_TRUE(SameBits(Converted(DType::kFloat32, DType::kBFloat16, values), rounded)) << n;
    EXPECT_TRUE(SameBits(Converted(DType::kBFloat16, DType::kFloat32, rounded), rounded)) << n;
    EXPECT_TRUE(SameBits(Converted(DType::kFloat32, DType::kFloat32, values), values)) << n;
    EXPECT_TRUE(SameBits(Converted(DType::kBFloat16, DType::kBFloat16, rounded), rounded)) << n;
  }
  EXPECT_TRUE(std::isnan(
      Converted(DType::kFloat32, DType::kBFloat16, {std::numeric_limits<float>::quiet_NaN()})[0]));
}

TEST(ConvertGpuTest, ReadsAndWritesUnaligned) {
  const Floats values = Normal(104, 1, DType::kBFloat16);
  const DeviceTensor in(DType::kFloat32, values), out(DType::kBFloat16, 104);
  Convert({.from = DType::kFloat32,
           .to = DType::kBFloat16,
           .count = 101,
           .in = in.floats() + 1,
           .out = static_cast<uint16_t*>(out.data()) + 1},
          TestStream());
  const Floats got = out.Read();
  for (size_t i = 0; i < 104; ++i) {
    if (i >= 1 && i < 102) {
      EXPECT_EQ(got[i], values[i]);
    } else {
      EXPECT_TRUE(std::isnan(got[i])) << i << " was written";
    }
  }
}

}  // namespace
}  // namespace gpu_convert_test
}  // namespace coxswain::kernels
