// Both libraries: this file is of kernels_test and of gpu_tests.
#include "kernels/quantize/fp8_blocks.h"

#include <bit>
#include <cmath>

#include "tests/kernels/quantized_memory.h"
#include "tests/reference/block_formats.h"

namespace coxswain::kernels {
namespace fp8_blocks_test {
namespace {

struct Matrix {
  int64_t rows = 0, cols = 0;
  std::vector<uint8_t> codes;
  std::vector<float> scales;
};

// Every code, unless it is small; scales from 2^-140 to 2^100, no powers of two.
Matrix Make(int64_t rows, int64_t cols) {
  Matrix made{rows, cols, std::vector<uint8_t>(static_cast<size_t>(rows * cols)), {}};
  for (size_t i = 0; i < made.codes.size(); ++i) made.codes[i] = static_cast<uint8_t>(i * 37 + 11);
  for (int64_t i = 0; i < Fp8Blocks(rows) * Fp8Blocks(cols); ++i) {
    made.scales.push_back(
        std::ldexp(1.0f + 0.1f * static_cast<float>(i % 9), static_cast<int>(i * 60 % 300) - 140));
  }
  return made;
}

float Rounded(double value, float) { return static_cast<float>(value); }
// To nearest even.
float Rounded(double value, uint16_t) {
  const uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  return std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u);
}
float Widened(float value) { return value; }
float Widened(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// Rows [begin, rows) of the matrix, written `skew` elements behind an aligned address.
template <typename T>
void Check(const Matrix& matrix, int64_t begin, int64_t skew) {
  const OnDevice<uint8_t> codes(matrix.codes);
  const OnDevice<float> scales(matrix.scales);
  const int64_t rows = matrix.rows - begin, cols = matrix.cols;
  const OnDevice<T> out(rows * cols + skew);
  Fp8BlocksDequantize({.dtype = sizeof(T) == 4 ? DType::kFloat32 : DType::kBFloat16,
                       .rows = rows,
                       .cols = cols,
                       .first_row = begin,
                       .codes = codes.data() + begin * cols,
                       .scales = scales.data(),
                       .out = out.data() + skew},
                      nullptr);
  Synchronize(nullptr);
  const std::vector<T> got = out.Read();
  for (int64_t i = 0; i < rows * cols; ++i) {
    const int64_t row = begin + i / cols, col = i % cols;
    const int code = matrix.codes[static_cast<size_t>(row * cols + col)];
    const int64_t place = row / 128 * Fp8Blocks(cols) + col / 128;
    const double scale = matrix.scales[static_cast<size_t>(place)];
    const float expected = Rounded(reference::Fp8E4m3Value(code) * scale, T{});
    const float value = Widened(got[static_cast<size_t>(i + skew)]);
    if (std::isnan(expected) || (code & 127) == 127) {
      ASSERT_TRUE(std::isnan(value)) << row << ", " << col;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(value), std::bit_cast<uint32_t>(expected))
          << row << ", " << col << " of " << matrix.rows << " x " << cols << ": code " << code
          << " scale " << scale << ": " << value;
    }
  }
}

TEST(Fp8BlocksTest, DequantizesMatricesOfEveryTail) {
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{1, 1},
                                   {3, 5},
                                   {127, 128},
                                   {128, 129},
                                   {130, 260},
                                   {257, 7},
                                   {300, 512}}) {
    const Matrix matrix = Make(rows, cols);
    Check<float>(matrix, 0, 0);
    Check<uint16_t>(matrix, 0, 0);
    Check<float>(matrix, 0, 1);
    Check<uint16_t>(matrix, 0, 1);
  }
}

// A part of the rows has the scales of the whole, wherever it begins.
TEST(Fp8BlocksTest, DequantizesRowsFromAnywhere) {
  const Matrix matrix = Make(300, 260);
  for (const int64_t begin : {1, 127, 128, 200, 299}) {
    Check<float>(matrix, begin, 0);
    Check<uint16_t>(matrix, begin, 0);
  }
}

// A scale that is NaN or infinite reaches its block alone.
TEST(Fp8BlocksTest, KeepsNanScalesInTheirBlock) {
  Matrix matrix{130, 130, std::vector<uint8_t>(130 * 130, 0x38), {1, 1, NAN, HUGE_VALF}};
  Check<float>(matrix, 0, 0);
  Check<uint16_t>(matrix, 0, 0);
}

TEST(Fp8BlocksTest, RefusesNegativeExtentsAndDoesNothingOfNone) {
  EXPECT_THROW(Fp8BlocksDequantize({.rows = -1}, nullptr), std::invalid_argument);
  EXPECT_THROW(Fp8BlocksDequantize({.cols = -1}, nullptr), std::invalid_argument);
  EXPECT_THROW(Fp8BlocksDequantize({.first_row = -1}, nullptr), std::invalid_argument);
  Fp8BlocksDequantize({.rows = 0, .cols = 5}, nullptr);
  Fp8BlocksDequantize({.rows = 5, .cols = 0}, nullptr);
  Synchronize(nullptr);
}

}  // namespace
}  // namespace fp8_blocks_test
}  // namespace coxswain::kernels
