#include <bit>
#include <limits>

#include "common/philox.h"
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

namespace convert_test {
namespace {

uint16_t Rounded(float value) {
  uint16_t bits = 0;
  Convert({.from = DType::kFloat32, .to = DType::kBFloat16, .count = 1, .in = &value, .out = &bits},
          nullptr);
  return bits;
}

TEST(ConvertTest, RoundsToNearestEven) {
  EXPECT_EQ(Rounded(1.0f), 0x3f80);
  EXPECT_EQ(Rounded(0x1.01p0f), 0x3f80) << "a tie goes to the even neighbour below";
  EXPECT_EQ(Rounded(0x1.03p0f), 0x3f82) << "a tie goes to the even neighbour above";
  EXPECT_EQ(Rounded(0x1.010002p0f), 0x3f81);
  EXPECT_EQ(Rounded(-0.0f), 0x8000);
  EXPECT_EQ(Rounded(std::numeric_limits<float>::max()), 0x7f80) << "rounds up to infinity";
  EXPECT_EQ(Rounded(-std::numeric_limits<float>::infinity()), 0xff80);
  EXPECT_EQ(Rounded(std::bit_cast<float>(0x7f800001u)), 0x7fc0) << "a NaN stays one";
}

TEST(ConvertTest, EveryBFloat16SurvivesTheWayToFloat32AndBack) {
  std::vector<uint16_t> bits(65536), back(65536);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  Floats wide(65536);
  Convert({.from = DType::kBFloat16,
           .to = DType::kFloat32,
           .count = 65536,
           .in = bits.data(),
           .out = wide.data()},
          nullptr);
  Convert({.from = DType::kFloat32,
           .to = DType::kBFloat16,
           .count = 65536,
           .in = wide.data(),
           .out = back.data()},
          nullptr);
  for (size_t i = 0; i < bits.size(); ++i) {
    if (std::isnan(wide[i])) {
      EXPECT_EQ(back[i], bits[i] | 0x40) << "quiet";
    } else {
      EXPECT_EQ(back[i], bits[i]);
    }
  }
}

TEST(ConvertTest, EqualTypesAreCopied) {
  const Floats in = Normal(101, 1);
  Floats out(101);
  Convert({.count = 101, .in = in.data(), .out = out.data()}, nullptr);
  EXPECT_TRUE(SameBits(in, out));
}

}  // namespace
}  // namespace convert_test

namespace random_fill_test {
namespace {

Floats Filled(RandomFillKind kind, double value, int64_t count, uint32_t counter = 3,
              int64_t first = 0) {
  Floats out(Size(count));
  RandomFill({.kind = kind,
              .value = value,
              .key = {1, 2},
              .counter = {counter, 4},
              .first = first,
              .count = count,
              .out = out.data()},
             nullptr);
  return out;
}

TEST(RandomFillTest, DrawsWhatPhiloxSays) {
  const Floats uniform = Filled(RandomFillKind::kUniform, 0.25, 1031);
  const Floats normal = Filled(RandomFillKind::kNormal, 0.5, 1031);
  for (uint32_t i = 0; i < 1031; ++i) {
    const auto words = Philox4x32({i / 4, 0, 3, 4}, {1, 2});
    const auto u = [&](size_t word) { return static_cast<double>(PhiloxUniform(words[word])); };
    EXPECT_EQ(uniform[i], static_cast<float>(0.25 * (2.0 * u(i % 4) - 1.0)));
    const size_t pair = i % 4 / 2 * 2;
    const double radius = std::sqrt(-2.0 * std::log(1.0 - u(pair)));
    const double angle = 2.0 * M_PI * u(pair + 1);
    const double want = 0.5 * radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
    EXPECT_NEAR(normal[i], want, kUnit * std::abs(want) + 1e-300);
  }
  EXPECT_EQ(Filled(RandomFillKind::kConstant, 0.3, 5), Floats(5, 0.3f));
}

// A part of a tensor equals the whole cut there; another counter is another tensor.
TEST(RandomFillTest, AnElementDependsOnItsIndexAndCounterAlone) {
  const Floats whole = Filled(RandomFillKind::kNormal, 1.0, 400000);
  const Floats part = Filled(RandomFillKind::kNormal, 1.0, 1001);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin()));
  for (const int64_t first : {1, 2, 3, 4, 1003}) {
    for (const int64_t count : {0, 1, 2, 5, 998}) {
      const Floats range = Filled(RandomFillKind::kNormal, 1.0, count, 3, first);
      EXPECT_TRUE(std::equal(range.begin(), range.end(), whole.begin() + first)) << first;
    }
  }
  EXPECT_NE(Filled(RandomFillKind::kNormal, 1.0, 8, 5), Filled(RandomFillKind::kNormal, 1.0, 8));
}

// 400,000 values: the mean has standard deviation 0.0016, the mean square 0.0022.
TEST(RandomFillTest, NormalValuesHaveTheirMoments) {
  const Floats values = Filled(RandomFillKind::kNormal, 1.0, 400000);
  double sum = 0, squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / 400000, 0.0, 5 * 0.0016);
  EXPECT_NEAR(squares / 400000, 1.0, 5 * 0.0022);
}

}  // namespace
}  // namespace random_fill_test

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

namespace checksum_test {
namespace {

uint64_t Sum(const Floats& values, uint64_t before = 0) {
  uint64_t sum = before;
  Checksum({.count = static_cast<int64_t>(values.size()), .values = values.data(), .sum = &sum},
           nullptr);
  return sum;
}

TEST(ChecksumTest, ChangesWithEveryBitAndWithTheOrder) {
  const Floats values = Normal(7, 1);
  EXPECT_EQ(Sum(values, 5), Sum(values) + 5);
  EXPECT_EQ(Sum({}, 5), 5u);
  for (size_t i = 0; i < 7; ++i) {
    for (int bit = 0; bit < 32; ++bit) {
      Floats other = values;
      other[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(other[i]) ^ (1u << bit));
      EXPECT_NE(Sum(other), Sum(values)) << i << " " << bit;
    }
  }
  Floats swapped = values;
  std::swap(swapped[2], swapped[5]);
  EXPECT_NE(Sum(swapped), Sum(values));
  EXPECT_NE(Sum({0.0f, 0.0f}), Sum({0.0f}));
}

TEST(ChecksumTest, BFloat16BitsAreZeroExtended) {
  const std::vector<uint16_t> bits = {0x3f80, 0xc000, 0x0001};
  Floats as_float;
  for (const uint16_t word : bits) as_float.push_back(std::bit_cast<float>(uint32_t{word}));
  uint64_t sum = 0;
  Checksum({.dtype = DType::kBFloat16, .count = 3, .values = bits.data(), .sum = &sum}, nullptr);
  EXPECT_EQ(sum, Sum(as_float));
}

TEST(AllZeroTest, IgnoresTheSignOfZeroAndNothingElse) {
  for (const float other : {0.0f, 1e-45f, std::nanf("")}) {
    const Floats values = {0.0f, -0.0f, other, 0.0f};
    int32_t all_zero = 1;
    AllZero({.count = 4, .values = values.data(), .all_zero = &all_zero}, nullptr);
    EXPECT_EQ(all_zero, other == 0.0f ? 1 : 0);
  }
  const std::vector<uint16_t> bits = {0x8000, 0x0001};
  int32_t all_zero = 1;
  AllZero({.dtype = DType::kBFloat16, .count = 1, .values = bits.data(), .all_zero = &all_zero},
          nullptr);
  EXPECT_EQ(all_zero, 1);
  AllZero({.dtype = DType::kBFloat16, .count = 2, .values = bits.data(), .all_zero = &all_zero},
          nullptr);
  EXPECT_EQ(all_zero, 0);
}

TEST(ChecksumTensorsTest, AreThoseOfEachTensorAlone) {
  std::vector<Floats> tensors;
  for (const int64_t n : {7, 0, 16384, 40001, 1}) {
    tensors.push_back(Normal(n, static_cast<unsigned>(n)));
  }
  tensors.push_back(Floats(20000, -0.0f));
  std::vector<NormTensor> list;
  int64_t chunks = 0;
  for (const Floats& tensor : tensors) {
    const auto elements = static_cast<int64_t>(tensor.size());
    list.push_back({tensor.data(), elements, chunks, DType::kFloat32});
    chunks += TensorChunks(elements);
  }
  const std::vector<uint16_t> halves = {0x8000, 0x0001};
  list.push_back({halves.data(), 2, chunks, DType::kBFloat16});
  std::vector<TensorBits> bits(list.size(), {7, 7});
  ChecksumTensors({.tensors = list.data(),
                   .count = static_cast<int64_t>(list.size()),
                   .chunks = chunks + 1,
                   .bits = bits.data()},
                  nullptr);
  for (size_t i = 0; i < tensors.size(); ++i) EXPECT_EQ(bits[i].checksum, Sum(tensors[i])) << i;
  const std::vector<uint64_t> nonzero = {1, 0, 1, 1, 1, 0, 1};
  for (size_t i = 0; i < nonzero.size(); ++i) EXPECT_EQ(bits[i].nonzero, nonzero[i]) << i;
}

}  // namespace
}  // namespace checksum_test

}  // namespace coxswain::kernels
