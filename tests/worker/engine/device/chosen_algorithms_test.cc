#include "worker/engine/device/chosen_algorithms.h"

#include <gtest/gtest.h>

namespace coxswain::engine {
namespace chosen_algorithms_test {
namespace {

TEST(ChosenAlgorithmsTest, ProductsAreLines) {
  const std::string table =
      R"({"device": "GPU", "library": 130100, "gemms": [)"
      R"({"m": 32768, "n": 1152, "k": 896, "dtype": "bfloat16", "output_dtype": "bfloat16",)"
      R"( "transpose_a": false, "transpose_b": true, "accumulate": false, "bias": true,)"
      R"( "microseconds": 105.4, "tflops": 641.8},)"
      R"({"m": 896, "n": 896, "k": 5, "dtype": "bfloat16", "output_dtype": "float32",)"
      R"( "transpose_a": true, "transpose_b": false, "accumulate": true, "bias": false,)"
      R"( "microseconds": 0, "tflops": 0},)"
      R"({"m": 896, "n": 896, "k": 5, "dtype": "bfloat16", "output_dtype": "bfloat16",)"
      R"( "transpose_a": false, "transpose_b": true, "accumulate": true, "bias": false,)"
      R"( "microseconds": 0, "tflops": 0, "addend": 256}]})";
  EXPECT_EQ(DescribeAlgorithms("dense", table),
            "attention: dense\n"
            "products by cuBLASLt 130100 on GPU:\n"
            "  32768 x 1152 x 896  NT  bfloat16 -> bfloat16 bias  105 us  642 TFLOP/s\n"
            "  896 x 896 x 5  TN  bfloat16 -> float32 +=  not measured\n"
            "  896 x 896 x 5  NT  bfloat16 -> bfloat16 + addend  not measured");
}

TEST(ChosenAlgorithmsTest, TheCpuHasNoTable) {
  EXPECT_EQ(DescribeAlgorithms("blocks", ""), "attention: blocks");
  EXPECT_EQ(DescribeAlgorithms("blocks", "{"), "attention: blocks");
}

}  // namespace
}  // namespace chosen_algorithms_test
}  // namespace coxswain::engine
