#include "kernels/tensors/whole_tensors.h"

#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {
namespace gpu_checksum_test {
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

// Aligned and not, empty ones between, more than a warp looks at in one round.
TEST_P(ChecksumGpuTest, AListGivesThoseOfEachTensor) {
  std::vector<std::unique_ptr<DeviceTensor>> memory;
  std::vector<NormTensor> list;
  std::vector<Floats> values;
  int64_t chunks = 0;
  for (int64_t i = 0; i < 70; ++i) {
    const int64_t n = i % 7 == 3 ? 0 : 1 + (i * 7919) % 40000, shift = i % 2;
    values.push_back(i % 5 == 4 ? Floats(Size(n + shift), -0.0f)
                                : Normal(n + shift, static_cast<unsigned>(i + 1), dtype_));
    memory.push_back(std::make_unique<DeviceTensor>(dtype_, values.back()));
    list.push_back({static_cast<char*>(memory.back()->data()) + shift * DTypeBytes(dtype_), n,
                    chunks, dtype_});
    chunks += TensorChunks(n);
  }
  const DeviceValues<NormTensor> device_list(list);
  const DeviceValues<TensorBits> bits(std::vector<TensorBits>(list.size(), {7, 7}));
  for (const size_t first : {size_t{0}, size_t{2}}) {
    ChecksumTensors({.tensors = device_list.data() + first,
                     .count = static_cast<int64_t>(list.size() - first),
                     .chunks = chunks - list[first].first_chunk,
                     .bits = bits.data()},
                    TestStream());
    const std::vector<TensorBits> got = bits.Read();
    for (size_t i = first; i < list.size(); ++i) {
      const int64_t shift = static_cast<int64_t>(i) % 2;
      EXPECT_EQ(got[i - first].checksum + 5, HostSum(values[i], shift)) << i;
      EXPECT_EQ(got[i - first].nonzero, i % 5 == 4 || list[i].elements == 0 ? 0u : 1u) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, ChecksumGpuTest,
                         testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace gpu_checksum_test
}  // namespace coxswain::kernels
