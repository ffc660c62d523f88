#include "kernels/checksum.h"

#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {
namespace {

// Source: SplitMix64, the output function.
uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

class ChecksumGpuTest : public testing::TestWithParam<DType> {
 protected:
  DType dtype_ = GetParam();

  // Of the elements from `first` on; a first other than 0 is not aligned.
  uint64_t DeviceSum(const DeviceTensor& values, int64_t first) const {
    const DeviceValues<uint64_t> sum({5});
    Checksum({.dtype = dtype_,
              .count = values.count() - first,
              .values = static_cast<const char*>(values.data()) + first * DTypeBytes(dtype_),
              .sum = sum.data()},
             TestStream());
    return sum.Read()[0];
  }
  uint64_t HostSum(const Floats& values, int64_t first) const {
    uint64_t sum = 5;
    for (size_t i = Size(first); i < values.size(); ++i) {
      const uint64_t bits =
          dtype_ == DType::kFloat32 ? std::bit_cast<uint32_t>(values[i]) : BFloat16Bits(values[i]);
      sum += Mix(bits + (static_cast<uint64_t>(i - Size(first)) << 32));
    }
    return sum;
  }
  bool DeviceAllZero(const Floats& values) const {
    const DeviceTensor device(dtype_, values);
    const DeviceValues<int32_t> all_zero({1});
    AllZero({.dtype = dtype_,
             .count = device.count(),
             .values = device.data(),
             .all_zero = all_zero.data()},
            TestStream());
    return all_zero.Read()[0] != 0;
  }
};

TEST_P(ChecksumGpuTest, EqualsTheFormulaForEveryTail) {
  for (const int64_t n : {1, 2, 7, 8, 9, 1031, 3000017}) {
    const Floats values = Normal(n, 1, dtype_);
    const DeviceTensor device(dtype_, values);
    EXPECT_EQ(DeviceSum(device, 0), HostSum(values, 0)) << n;
    EXPECT_EQ(DeviceSum(device, 1), HostSum(values, 1)) << n;
  }
}

TEST_P(ChecksumGpuTest, FindsOneElementThatIsNotZero) {
  for (const int64_t n : {1, 9, 1031, 100003}) {
    Floats values(Size(n), 0.0f);
    values[Size(n / 2)] = -0.0f;
    EXPECT_TRUE(DeviceAllZero(values));
    for (const int64_t at : {int64_t{0}, n / 2, n - 1}) {
      Floats other = values;
      other[Size(at)] = at == 0 ? std::nanf("") : 1e-38f;
      EXPECT_FALSE(DeviceAllZero(other)) << n << " " << at;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, ChecksumGpuTest,
                         testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace coxswain::kernels
