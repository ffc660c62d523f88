#include "kernels/quantize/int8_rows.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/kernels/quantized_memory.h"

namespace coxswain::kernels {
namespace int8_rows_test {
namespace {

struct Quantized {
  std::vector<int8_t> codes;
  std::vector<float> absmax, dequantized;
};

Quantized Quantize(const std::vector<float>& weight, int64_t rows, int64_t cols) {
  const OnDevice<float> in(weight), absmax(rows), out(rows * cols);
  const OnDevice<int8_t> codes(rows * cols);
  Int8QuantizeRows({rows, cols, in.data(), codes.data(), absmax.data()}, nullptr);
  Int8DequantizeRows({DType::kFloat32, rows, cols, codes.data(), absmax.data(), out.data()},
                     nullptr);
  Synchronize(nullptr);
  return {codes.Read(), absmax.Read(), out.Read()};
}

TEST(Int8RowsTest, QuantizesAsBitsandbytes) {
  const BitsFile golden("int8");
  const std::vector<int64_t> shape = golden.Shape("weight");
  const Quantized got = Quantize(golden.Values<float>("weight"), shape[0], shape[1]);
  EXPECT_EQ(got.codes, golden.Values<int8_t>("quantised"));
  EXPECT_EQ(got.absmax, golden.Values<float>("scale"));
  for (size_t i = 0; i < got.codes.size(); ++i) {
    const float scaled =
        static_cast<float>(got.codes[i]) * got.absmax[i / static_cast<size_t>(shape[1])];
    EXPECT_EQ(got.dequantized[i], scaled * (1.0f / 127.0f)) << i;
  }
}

TEST(Int8RowsTest, IsWithinHalfAStepForEveryWidth) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const int64_t cols : {1, 3, 4, 31, 256, 1027}) {
    const int64_t rows = 5;
    std::vector<float> weight(static_cast<size_t>(rows * cols));
    for (float& value : weight) value = normal(random);
    std::fill(weight.begin(), weight.begin() + cols, 0.0f);  // a row of zeros stays one
    const Quantized got = Quantize(weight, rows, cols);
    for (size_t i = 0; i < weight.size(); ++i) {
      const float absmax = got.absmax[i / static_cast<size_t>(cols)];
      EXPECT_LE(std::abs(got.dequantized[i] - weight[i]), absmax * (0.5f / 127) * 1.00001f);
    }
  }
}

}  // namespace
}  // namespace int8_rows_test
}  // namespace coxswain::kernels
