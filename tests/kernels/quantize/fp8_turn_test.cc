// Both libraries: this file is of kernels_test and of gpu_tests.
#include "kernels/quantize/fp8_turn.h"

#include <random>
#include <utility>

#include "tests/kernels/quantized_memory.h"

namespace coxswain::kernels {
namespace fp8_turn_test {
namespace {

std::vector<uint8_t> RandomCodes(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> codes(static_cast<size_t>(count));
  for (uint8_t& code : codes) code = static_cast<uint8_t>(random());  // those of NaN and -0 too
  return codes;
}

// `shift`: bytes in front of the codes, so that their rows are not aligned.
std::vector<uint8_t> Turned(int64_t rows, int64_t cols, int64_t shift,
                            const std::vector<uint8_t>& codes) {
  std::vector<uint8_t> shifted(static_cast<size_t>(shift), uint8_t{0xaa});
  shifted.insert(shifted.end(), codes.begin(), codes.end());
  const OnDevice<uint8_t> on_device(shifted), turned(cols * Fp8Stride(rows));
  Fp8Turn({.rows = rows, .cols = cols, .codes = on_device.data() + shift, .turned = turned.data()},
          nullptr);
  Synchronize(nullptr);
  return turned.Read();
}

TEST(Fp8TurnTest, MovesEachByteAndFillsTheStride) {
  const std::pair<int64_t, int64_t> extents[] = {{1, 1},     {1, 40},    {40, 1},    {16, 16},
                                                 {128, 128}, {129, 127}, {127, 264}, {300, 136},
                                                 {144, 80},  {257, 3},   {5, 1000}};
  for (const auto& [rows, cols] : extents) {
    const std::vector<uint8_t> codes =
        RandomCodes(rows * cols, static_cast<unsigned>(rows * 1000 + cols));
    for (const int64_t shift : {0, 1, 8}) {
      const std::vector<uint8_t> turned = Turned(rows, cols, shift, codes);
      const int64_t stride = Fp8Stride(rows);
      for (int64_t j = 0; j < cols; ++j) {
        for (int64_t i = 0; i < stride; ++i) {
          const int expected = i < rows ? codes[static_cast<size_t>(i * cols + j)] : 0;
          ASSERT_EQ(turned[static_cast<size_t>(j * stride + i)], expected)
              << rows << " x " << cols << ", shift " << shift << ": row " << i << ", column " << j;
        }
      }
    }
  }
}

TEST(Fp8TurnTest, NothingOfNothingAndNoNegativeExtent) {
  const OnDevice<uint8_t> codes(16), turned(16);
  const std::vector<uint8_t> before = turned.Read();
  Fp8Turn({.rows = 0, .cols = 16, .codes = codes.data(), .turned = turned.data()}, nullptr);
  Fp8Turn({.rows = 16, .cols = 0, .codes = codes.data(), .turned = turned.data()}, nullptr);
  Synchronize(nullptr);
  EXPECT_EQ(turned.Read(), before);
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{-1, 16}, {16, -1}}) {
    EXPECT_THROW(
        Fp8Turn({.rows = rows, .cols = cols, .codes = codes.data(), .turned = turned.data()},
                nullptr),
        std::invalid_argument);
  }
}

}  // namespace
}  // namespace fp8_turn_test
}  // namespace coxswain::kernels
