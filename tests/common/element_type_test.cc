#include "common/element_type.h"

#include <bit>
#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace coxswain {
namespace {

TEST(ElementTypeTest, NamesRoundTripAndAreDistinct) {
  for (int i = 0; i <= static_cast<int>(ElementType::kU64); ++i) {
    const ElementType dtype = static_cast<ElementType>(i);
    ElementType parsed{};
    ASSERT_TRUE(ParseElementType(ElementName(dtype), &parsed)) << i;
    EXPECT_EQ(parsed, dtype);
  }
  ElementType unused{};
  EXPECT_FALSE(ParseElementType("bf16", &unused));
  EXPECT_FALSE(ParseElementType("", &unused));
}

TEST(ElementTypeTest, BitsOfEveryWidth) {
  EXPECT_EQ(ElementBits(ElementType::kF4), 4);
  EXPECT_EQ(ElementBits(ElementType::kF6E3M2), 6);
  EXPECT_EQ(ElementBits(ElementType::kBool), 8);
  EXPECT_EQ(ElementBits(ElementType::kBF16), 16);
  EXPECT_EQ(ElementBits(ElementType::kF32), 32);
  EXPECT_EQ(ElementBits(ElementType::kU64), 64);
}

TEST(ElementTypeTest, EveryBf16AndHalfSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto b = static_cast<uint16_t>(bits);
    if (std::isnan(Bf16ToFloat(b))) {
      EXPECT_TRUE(std::isnan(Bf16ToFloat(FloatToBf16(Bf16ToFloat(b))))) << bits;
    } else {
      EXPECT_EQ(FloatToBf16(Bf16ToFloat(b)), b);
    }
    if (std::isnan(HalfToFloat(b))) {
      EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(HalfToFloat(b))))) << bits;
    } else {
      EXPECT_EQ(FloatToHalf(HalfToFloat(b)), b);
    }
  }
}

// A value strictly between two neighbours goes to the nearer one, the midpoint to the even one.
template <typename Narrow, typename Widen>
void ExpectNearestEven(uint16_t largest, Narrow narrow, Widen widen) {
  for (uint16_t low = 0; low < largest; ++low) {
    const auto high = static_cast<uint16_t>(low + 1);
    const float middle = static_cast<float>(
        (static_cast<double>(widen(low)) + static_cast<double>(widen(high))) / 2);
    ASSERT_EQ(narrow(middle), low % 2 == 0 ? low : high) << low;
    ASSERT_EQ(narrow(std::nextafter(middle, 0.0f)), low) << low;
    ASSERT_EQ(narrow(std::nextafter(middle, std::numeric_limits<float>::infinity())), high) << low;
    ASSERT_EQ(narrow(-middle), 0x8000 | (low % 2 == 0 ? low : high)) << low;
  }
}

TEST(ElementTypeTest, HalfRoundsToNearestEvenOverItsWholeRange) {
  ExpectNearestEven(0x7BFF, &FloatToHalf, &HalfToFloat);
  EXPECT_EQ(FloatToHalf(65519.996f), 0x7BFF);
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7C00);
  EXPECT_EQ(FloatToHalf(std::numeric_limits<float>::infinity()), 0x7C00);
}

TEST(ElementTypeTest, Bf16RoundsToNearestEvenOverItsWholeRange) {
  ExpectNearestEven(0x7F7F, &FloatToBf16, &Bf16ToFloat);
  EXPECT_EQ(FloatToBf16(std::numeric_limits<float>::max()), 0x7F80);
  // A NaN whose payload lies only in the low half must not become infinity.
  EXPECT_TRUE(std::isnan(Bf16ToFloat(FloatToBf16(std::bit_cast<float>(0x7F800001u)))));
  EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(std::bit_cast<float>(0x7F800001u)))));
}

}  // namespace
}  // namespace coxswain
