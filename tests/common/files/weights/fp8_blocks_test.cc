#include "common/files/weights/fp8_blocks.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace coxswain {
namespace fp8_blocks_test {
namespace {

constexpr int kLargestCode = 126;

TEST(Fp8BlocksTest, EveryCodeIsThatOfItsNumber) {
  for (int code = 0; code < 256; ++code) {
    const float value = E4m3ToFloat(static_cast<uint8_t>(code));
    EXPECT_EQ(std::isnan(value), (code & 127) == 127) << code;
    EXPECT_EQ(FloatToE4m3(value), std::isnan(value) ? 127 : code);
  }
  EXPECT_EQ(E4m3ToFloat(1), 0x1p-9f);
  EXPECT_EQ(E4m3ToFloat(kLargestCode), kLargestE4m3);
}

// Neighbouring codes stand for neighbouring numbers, so that the middle of two is exact in float32.
TEST(Fp8BlocksTest, RoundsToNearestAndTiesToEven) {
  for (int code = 0; code < kLargestCode; ++code) {
    const float low = E4m3ToFloat(static_cast<uint8_t>(code));
    const float high = E4m3ToFloat(static_cast<uint8_t>(code + 1));
    const float middle = low + (high - low) / 2;
    const int even = code % 2 == 0 ? code : code + 1;
    EXPECT_EQ(FloatToE4m3(middle), even) << middle;
    EXPECT_EQ(FloatToE4m3(-middle), even | 128) << middle;
    EXPECT_EQ(FloatToE4m3(std::nextafter(middle, 0.0f)), code) << middle;
    EXPECT_EQ(FloatToE4m3(std::nextafter(middle, 1e9f)), code + 1) << middle;
  }
  for (const float beyond : {449.0f, 1e30f, std::numeric_limits<float>::infinity()}) {
    EXPECT_EQ(FloatToE4m3(beyond), kLargestCode);
    EXPECT_EQ(FloatToE4m3(-beyond), kLargestCode | 128);
  }
}

// Values of a matrix whose blocks at the right and the bottom are cut: 3 rows and 5 columns.
class Fp8MatrixTest : public testing::Test {
 protected:
  static constexpr int64_t kRows = 131, kCols = 133;

  float& At(int64_t row, int64_t col) { return values_[static_cast<size_t>(row * kCols + col)]; }
  void Encode() {
    const Fp8Matrix matrix{.rows = kRows, .cols = kCols, .values = values_.data()};
    scales_ = Fp8ScalesOf(matrix);
    WriteFp8Codes(matrix, scales_, codes_.data());
  }
  uint8_t CodeAt(int64_t row, int64_t col) {
    return codes_[static_cast<size_t>(row * kCols + col)];
  }

  std::vector<float> values_ = std::vector<float>(kRows * kCols), scales_;
  std::vector<uint8_t> codes_ = std::vector<uint8_t>(kRows * kCols);
};

TEST_F(Fp8MatrixTest, EachBlockHasItsLargestSizeOver448) {
  At(127, 127) = -3.0f;
  At(0, 128) = 5.0f;
  At(128, 0) = 7.0f;
  At(130, 132) = -11.0f;
  Encode();
  EXPECT_EQ(scales_, (std::vector<float>{3.0f / 448, 5.0f / 448, 7.0f / 448, 11.0f / 448}));
  EXPECT_EQ(CodeAt(127, 127), kLargestCode | 128);
  EXPECT_EQ(CodeAt(0, 128), kLargestCode);
  EXPECT_EQ(CodeAt(128, 0), kLargestCode);
  EXPECT_EQ(CodeAt(130, 132), kLargestCode | 128);
}

// The quotient and the product add a rounding of 2^-24 each.
TEST_F(Fp8MatrixTest, AValueIsWithinHalfAUnitOfItsCode) {
  for (size_t i = 0; i < values_.size(); ++i) {
    values_[i] = std::sin(static_cast<float>(i)) * std::exp2(-static_cast<float>(i % 23));
  }
  Encode();
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t col = 0; col < kCols; ++col) {
      const float scale = scales_[static_cast<size_t>(row / 128 * 2 + col / 128)];
      const double size = std::abs(At(row, col));
      const double bound = std::max(size * 0x1p-4, scale * 0x1p-10) + size * 0x1p-22;
      EXPECT_LE(std::abs(E4m3ToFloat(CodeAt(row, col)) * scale - At(row, col)), bound)
          << row << " " << col;
    }
  }
}

TEST_F(Fp8MatrixTest, ZerosHaveAScaleOfOneAndTheSmallestNumbersANormalOne) {
  At(0, 128) = std::numeric_limits<float>::denorm_min();
  Encode();
  EXPECT_EQ(scales_, (std::vector<float>{1, 0x1p-126f, 1, 1}));
  for (const uint8_t code : codes_) EXPECT_EQ(code, 0);
}

TEST_F(Fp8MatrixTest, WhatIsNotFiniteIsNanAndLeavesItsBlock) {
  At(0, 0) = std::numeric_limits<float>::infinity();
  At(0, 1) = std::numeric_limits<float>::quiet_NaN();
  At(0, 2) = 2;
  Encode();
  EXPECT_EQ(scales_[0], 2.0f / 448);
  EXPECT_EQ(CodeAt(0, 0), 127);
  EXPECT_EQ(CodeAt(0, 1), 127);
  EXPECT_EQ(CodeAt(0, 2), kLargestCode);
}

}  // namespace
}  // namespace fp8_blocks_test
}  // namespace coxswain
