// Conversion, checksum and random fill of whole tensors.
#include <bit>
#include <limits>

#include "common/philox.h"
#include "kernels/checksum.h"
#include "kernels/convert.h"
#include "kernels/random_fill.h"
#include "tests/kernels/testing.h"

namespace coxswain::kernels {
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
}  // namespace coxswain::kernels
