// Both libraries: this file is of kernels_test and of gpu_tests.
#include "kernels/quantize/mxfp4.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "tests/kernels/quantized_memory.h"
#include "tests/reference/block_formats.h"

namespace coxswain::kernels {
namespace mxfp4_test {
namespace {

struct Quantized {
  std::vector<uint8_t> codes, scales;
};

Quantized Quantize(const std::vector<float>& weight) {
  const auto n = static_cast<int64_t>(weight.size());
  const OnDevice<float> in(weight);
  const OnDevice<uint8_t> codes(n / 2), scales(Mxfp4Blocks(n));
  Mxfp4Quantize({n, in.data(), codes.data(), scales.data()}, nullptr);
  Synchronize(nullptr);
  return {codes.Read(), scales.Read()};
}

// `skew` elements behind an aligned address.
template <typename T>
std::vector<T> Dequantize(const Quantized& from, int64_t skew = 0) {
  const auto n = static_cast<int64_t>(from.codes.size()) * 2;
  const OnDevice<uint8_t> codes(from.codes), scales(from.scales);
  const OnDevice<T> out(n + skew);
  Mxfp4Dequantize({.dtype = sizeof(T) == 4 ? DType::kFloat32 : DType::kBFloat16,
                   .elements = n,
                   .codes = codes.data(),
                   .scales = scales.data(),
                   .out = out.data() + skew},
                  nullptr);
  Synchronize(nullptr);
  const std::vector<T> all = out.Read();
  return {all.begin() + skew, all.end()};
}

float Widened(float value) { return value; }
float Widened(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

int CodeAt(const std::vector<uint8_t>& codes, size_t i) { return codes[i / 2] >> i % 2 * 4 & 15; }

// Every code under every scale, and a number of blocks that ends inside a thread block.
template <typename T>
void CheckAllCodesAndScales(int64_t skew) {
  Quantized all;
  for (int scale = 0; scale < 256 + 3; ++scale) {
    all.scales.push_back(static_cast<uint8_t>(scale));
    for (int i = 0; i < 16; ++i) {
      all.codes.push_back(static_cast<uint8_t>((i + scale) % 16 | (i * 5 + scale) % 16 << 4));
    }
  }
  const std::vector<T> got = Dequantize<T>(all, skew);
  for (size_t i = 0; i < got.size(); ++i) {
    const int scale = all.scales[i / 32];
    const auto expected = static_cast<float>(reference::Mxfp4Value(CodeAt(all.codes, i), scale));
    const float value = Widened(got[i]);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value)) << i;
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(value), std::bit_cast<uint32_t>(expected))
          << "code " << CodeAt(all.codes, i) << " scale " << scale << ": " << value;
    }
  }
}

TEST(Mxfp4Test, DequantizesEveryCodeUnderEveryScale) {
  for (const int64_t skew : {0, 1}) {
    CheckAllCodesAndScales<float>(skew);
    CheckAllCodesAndScales<uint16_t>(skew);
  }
}

void ExpectAsReference(const std::vector<float>& weight) {
  const Quantized got = Quantize(weight);
  for (size_t block = 0; block < weight.size() / 32; ++block) {
    const auto* const in = weight.data() + block * 32;
    const reference::Mxfp4Quantized expected = reference::Mxfp4QuantizeBlock({in, in + 32});
    EXPECT_EQ(got.scales[block], expected.scale) << "block " << block;
    for (size_t i = 0; i < 32; ++i) {
      EXPECT_EQ(CodeAt(got.codes, block * 32 + i), expected.codes[i])
          << "block " << block << ": " << in[i] << " under scale " << expected.scale;
    }
  }
}

TEST(Mxfp4Test, QuantizesNormalValuesOfEverySize) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> weight;
  for (int exponent = -150; exponent < 127; exponent += 3) {
    for (int i = 0; i < 64; ++i) weight.push_back(std::ldexp(normal(random), exponent));
  }
  ExpectAsReference(weight);
}

// The block's largest value is 4 to 8: its scale is 1. Middles go to the even code, those beside
// them to the nearer one, and what is beyond 6 to 6.
TEST(Mxfp4Test, RoundsMiddlesToTheEvenCode) {
  std::vector<float> weight{4.0f, 7.99f, -7.0f, -0.0f, 0.0f, -0.1f};
  for (const float middle : kMxfp4Middles.values) {
    for (const float x : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 8.0f)}) {
      weight.push_back(weight.size() % 2 == 0 ? x : -x);
    }
  }
  weight.resize(32, 0.0f);
  ExpectAsReference(weight);
  EXPECT_EQ(Quantize(weight).scales[0], 127);
}

// Just below a power of two the logarithm rounds up in float32; the scale does not.
TEST(Mxfp4Test, TakesTheScaleBelowAPowerOfTwo) {
  std::vector<float> weight(64, 0.5f);
  weight[0] = std::nextafter(8.0f, 0.0f);
  weight[32] = 8.0f;
  EXPECT_EQ(Quantize(weight).scales, (std::vector<uint8_t>{127, 128}));
  ExpectAsReference(weight);
}

TEST(Mxfp4Test, QuantizesExtremes) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  constexpr float kLeast = std::numeric_limits<float>::denorm_min();
  std::vector<float> weight(32 * 4);
  weight[0] = kLargest;
  weight[1] = -kLargest / 3;
  weight[2] = kLeast;
  weight[32] = kLeast;
  weight[33] = -0x1p-126f;
  weight[64] = -kLeast;
  ExpectAsReference(weight);
  EXPECT_EQ(Quantize(weight).scales, (std::vector<uint8_t>{252, 0, 0, 0}));
}

TEST(Mxfp4Test, KeepsNanAndInfinityInTheirBlock) {
  for (const float x : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    std::vector<float> weight(96, 1.0f);
    weight[37] = x;
    const Quantized got = Quantize(weight);
    EXPECT_EQ(got.scales, (std::vector<uint8_t>{125, 255, 125}));
    const std::vector<float> back = Dequantize<float>(got);
    for (size_t i = 0; i < 96; ++i) {
      if (i / 32 == 1) {
        EXPECT_TRUE(std::isnan(back[i])) << i;
      } else {
        EXPECT_EQ(back[i], 1.0f) << i;
      }
    }
  }
}

// What it stores comes back as it is.
TEST(Mxfp4Test, QuantizesItsOwnValuesToThemselves) {
  std::vector<float> weight;
  for (int scale = 0; scale < 253; ++scale) {
    for (int i = 0; i < 32; ++i) {
      weight.push_back(static_cast<float>(reference::Mxfp4Value((i * 7 + 6) % 16, scale)));
    }
  }
  for (float& x : weight) {
    if (x == 0) x = 0;  // a zero has no sign once it is stored
  }
  EXPECT_EQ(Dequantize<float>(Quantize(weight)), weight);
}

template <typename Fn>
void ExpectRefused(const Fn& fn, const std::string& message) {
  try {
    fn();
    ADD_FAILURE() << "no error; expected " << message;
  } catch (const std::invalid_argument& error) {
    EXPECT_EQ(error.what(), message);
  }
}

TEST(Mxfp4Test, RefusesPartsOfBlocks) {
  ExpectRefused([] { Mxfp4Quantize({.elements = 33}, nullptr); },
                "Mxfp4Quantize: elements is 33, must be a multiple of 32");
  ExpectRefused([] { Mxfp4Dequantize({.elements = 31}, nullptr); },
                "Mxfp4Dequantize: elements is 31, must be a multiple of 32");
  ExpectRefused([] { Mxfp4Quantize({.elements = -32}, nullptr); },
                "Mxfp4Quantize: elements is -32, must not be negative");
  ExpectRefused([] { Mxfp4Dequantize({.elements = -32}, nullptr); },
                "Mxfp4Dequantize: elements is -32, must not be negative");
}

TEST(Mxfp4Test, OfNothingDoesNothing) {
  Mxfp4Quantize({.elements = 0}, nullptr);
  Mxfp4Dequantize({.elements = 0}, nullptr);
  Mxfp4Dequantize({.dtype = DType::kBFloat16, .elements = 0}, nullptr);
  Synchronize(nullptr);
}

}  // namespace
}  // namespace mxfp4_test
}  // namespace coxswain::kernels
