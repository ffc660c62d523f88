#include "kernels/optimizer/dynamic_lines.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "kernels/optimizer/dynamic_map.h"
#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace dynamic_map_test {
namespace {

TEST(DynamicMapTest, IsAscendingWithTheDecadesOfItsFormula) {
  for (const DynamicMap* map : {&kSignedDynamicMap, &kUnsignedDynamicMap}) {
    EXPECT_TRUE(std::is_sorted(map->values, map->values + kDynamicCodes));
    EXPECT_EQ(map->values[255], 1.0f);
  }
  EXPECT_EQ(kSignedDynamicMap.values[127], 0.0f);
  EXPECT_EQ(kUnsignedDynamicMap.values[0], 0.0f);
  // First and last value of the first and of the last decade.
  EXPECT_FLOAT_EQ(kSignedDynamicMap.values[128], 0.55e-6f);
  EXPECT_FLOAT_EQ(kSignedDynamicMap.values[191], 0.1f + 0.9f * 0.5f / 64);
  EXPECT_FLOAT_EQ(kSignedDynamicMap.values[254], 1.0f - 0.9f * 0.5f / 64);
  EXPECT_EQ(kSignedDynamicMap.values[0], -kSignedDynamicMap.values[254]);
  EXPECT_FLOAT_EQ(kUnsignedDynamicMap.values[1], 0.325e-6f);
  EXPECT_FLOAT_EQ(kUnsignedDynamicMap.values[254], 1.0f - 0.9f * 0.5f / 128);
}

TEST(DynamicMapTest, NearestCodeOfAValueIsItsOwn) {
  for (int code = 0; code < kDynamicCodes; ++code) {
    EXPECT_EQ(NearestCode(kSignedDynamicMap, kSignedDynamicMap.values[code]), code);
    EXPECT_EQ(SignedDynamicCode(kSignedDynamicMap.values[code]), code);
    EXPECT_EQ(NearestCode(kUnsignedDynamicMap, kUnsignedDynamicMap.values[code]), code);
    EXPECT_EQ(UnsignedDynamicCode(kUnsignedDynamicMap.values[code]), code);
  }
}

// u is below 256 and takes two roundings to 2^-16 and those of slope and argument, less than 2^-14
// of a step between two values together.
void CheckCode(const DynamicMap& map, float x, int code) {
  const int nearest = NearestCode(map, x);
  if (code == nearest) return;
  ASSERT_EQ(std::abs(code - nearest), 1) << x;
  const double low = map.values[std::min(code, nearest)],
               high = map.values[std::max(code, nearest)];
  ASSERT_LE(std::abs(x - 0.5 * (low + high)), 0x1p-14 * (high - low)) << x;
}

TEST(DynamicMapTest, ArithmeticFindsTheNearest) {
  // Every 1021st float of [0, 1].
  for (uint32_t bits = 0; bits <= 0x3f800000u; bits += 1021) {
    const float x = std::bit_cast<float>(bits);
    CheckCode(kSignedDynamicMap, x, SignedDynamicCode(x));
    CheckCode(kSignedDynamicMap, -x, SignedDynamicCode(-x));
    CheckCode(kUnsignedDynamicMap, x, UnsignedDynamicCode(x));
    if (HasFatalFailure()) return;
  }
}

// What the table has for x's exponent is the least of all lines, exactly.
template <bool kSigned>
void CheckLines(const DynamicLineTable& table, float x) {
  const DynamicLine line = LeastDynamicLine<kSigned>(x);
  const double a = x, least = line.slope * a + line.offset;
  const DynamicLines& of = table.of[std::bit_cast<uint32_t>(x) >> 23];
  EXPECT_EQ(std::min(of.slope * a + of.offset, of.next_slope * a + of.next_offset), least) << x;
}

TEST(DynamicMapTest, TwoLinesOfAnExponentAreEnough) {
  const DynamicLineTable of_signed = MakeDynamicLineTable<true>();
  const DynamicLineTable of_unsigned = MakeDynamicLineTable<false>();
  for (uint32_t bits = 0; bits < 0x3f800000u; bits += 1021) {
    CheckLines<true>(of_signed, std::bit_cast<float>(bits));
    CheckLines<false>(of_unsigned, std::bit_cast<float>(bits));
    if (HasFailure()) return;
  }
  for (int exponent = 127; exponent < kExponents; ++exponent) {
    EXPECT_EQ(of_signed.of[exponent].offset, 128.0f);
    EXPECT_EQ(of_unsigned.of[exponent].next_offset, 256.0f);
  }
}

TEST(DynamicMapTest, WhatIsOutsideTakesTheLastValue) {
  EXPECT_EQ(SignedDynamicCode(1.5f), 255);
  EXPECT_EQ(SignedDynamicCode(-1.0f), 0);
  EXPECT_EQ(SignedDynamicCode(-1.5f), 0);
  EXPECT_EQ(UnsignedDynamicCode(1.5f), 255);
  EXPECT_EQ(SignedDynamicCode(std::numeric_limits<float>::quiet_NaN()), 255);
  EXPECT_EQ(UnsignedDynamicCode(std::numeric_limits<float>::quiet_NaN()), 255);
}

}  // namespace
}  // namespace dynamic_map_test
}  // namespace coxswain::kernels
