#include <limits>

#include "kernels/philox.h"
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

namespace gpu_random_fill_test {
namespace {

class RandomFillGpuTest : public testing::TestWithParam<DType> {
 protected:
  DType dtype_ = GetParam();

  Floats Fill(RandomFillKind kind, double value, int64_t count, int64_t first = 0) const {
    const DeviceTensor out(dtype_, count);
    RandomFill({.dtype = dtype_,
                .kind = kind,
                .value = value,
                .key = {11, 12},
                .counter = {13, 14},
                .first = first,
                .count = count,
                .out = out.data()},
               TestStream());
    return out.Read();
  }
  static double Uniform(int64_t i, int64_t word) {
    const PhiloxWords words = Philox({{static_cast<uint32_t>(i / 4), 0, 13, 14}}, 11, 12);
    return static_cast<double>(words.word[word] >> 8) * 0x1p-24;
  }
  static double Normal(int64_t i) {
    const int64_t pair = i % 4 / 2 * 2;
    const double radius = std::sqrt(-2.0 * std::log(1.0 - Uniform(i, pair)));
    const double angle = 2.0 * M_PI * Uniform(i, pair + 1);
    return radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
  }
};

TEST_P(RandomFillGpuTest, EqualsTheFormula) {
  for (const int64_t count : {0, 1, 2, 3, 5, 1031, 1200003}) {
    const Floats uniform = Fill(RandomFillKind::kUniform, 0.25, count);
    const Floats normal = Fill(RandomFillKind::kNormal, 0.02, count);
    EXPECT_EQ(Fill(RandomFillKind::kConstant, 0.3, count),
              Floats(Size(count), Round(0.3f, dtype_)));
    int64_t different = 0;
    for (int64_t i = 0; i<count; i += count> 100000 ? 97 : 1) {
      const double u = 0.25 * (2.0 * Uniform(i, i % 4) - 1.0);
      ASSERT_EQ(uniform[Size(i)], Round(static_cast<float>(u), dtype_)) << i;
      const double want = 0.02 * Normal(i);
      // The double functions of the device differ in the last bits: another float once in 2^28.
      different += normal[Size(i)] != Round(static_cast<float>(want), dtype_) ? 1 : 0;
      ASSERT_NEAR(normal[Size(i)], want, 2 * kUnit(dtype_) * std::abs(want) + 1e-17) << i;
    }
    EXPECT_LE(different, 1);
  }
}

TEST_P(RandomFillGpuTest, ARangeIsThatOfTheWhole) {
  const Floats whole = Fill(RandomFillKind::kNormal, 0.02, 3000);
  for (const int64_t first : {1, 2, 3, 4, 1003}) {
    for (const int64_t count : {1, 2, 5, 998}) {
      const Floats range = Fill(RandomFillKind::kNormal, 0.02, count, first);
      EXPECT_TRUE(std::equal(range.begin(), range.end(), whole.begin() + first)) << first;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, RandomFillGpuTest,
                         testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace gpu_random_fill_test

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
