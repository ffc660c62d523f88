#include "kernels/quantize/nf4.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include "kernels/optimizer/dynamic_map.h"
#include "tests/kernels/quantized_memory.h"

namespace coxswain::kernels {
namespace nf4_test {
namespace {

struct Quantized {
  std::vector<uint8_t> codes, absmax_codes;
  std::vector<float> absmax, constants;
};

Quantized Quantize(const std::vector<float>& weight) {
  const auto n = static_cast<int64_t>(weight.size());
  const OnDevice<float> in(weight), absmax(Nf4Blocks(n)), constants(Nf4Constants(n));
  const OnDevice<uint8_t> codes((n + 1) / 2), absmax_codes(Nf4Blocks(n));
  Nf4Quantize({n, in.data(), codes.data(), absmax.data()}, nullptr);
  Nf4QuantizeScales({Nf4Blocks(n), absmax.data(), absmax_codes.data(), constants.data()}, nullptr);
  Synchronize(nullptr);
  return {codes.Read(), absmax_codes.Read(), absmax.Read(), constants.Read()};
}

std::vector<float> Dequantize(const Quantized& from, bool twice, int64_t n) {
  const OnDevice<uint8_t> codes(from.codes), absmax_codes(from.absmax_codes);
  const OnDevice<float> absmax(from.absmax), constants(from.constants), out(n);
  Nf4DequantizeArgs args{.elements = n, .codes = codes.data(), .out = out.data()};
  if (twice) {
    args.absmax_codes = absmax_codes.data();
    args.constants = constants.data();
  } else {
    args.absmax = absmax.data();
  }
  Nf4Dequantize(args, nullptr);
  Synchronize(nullptr);
  return out.Read();
}

std::vector<float> Weight(int64_t n) {
  std::mt19937 random(static_cast<unsigned>(n));
  std::normal_distribution<float> normal(0.0f, 0.02f);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) value = normal(random);
  return values;
}

class Nf4GoldenTest : public testing::TestWithParam<const char*> {};

TEST_P(Nf4GoldenTest, QuantizesAndDequantizesAsBitsandbytes) {
  const BitsFile golden(std::string("nf4_") + GetParam());
  const std::vector<float> weight = golden.Values<float>("weight");
  const Quantized got = Quantize(weight);
  EXPECT_EQ(got.codes, golden.Values<uint8_t>("packed"));
  EXPECT_EQ(got.absmax, golden.Values<float>("absmax"));
  EXPECT_EQ(std::vector<float>(std::begin(kNf4Map.values), std::end(kNf4Map.values)),
            golden.Values<float>("code"));
  const auto n = static_cast<int64_t>(weight.size());
  EXPECT_EQ(Dequantize(got, false, n), golden.Values<float>("dequantised"));
}
INSTANTIATE_TEST_SUITE_P(Bits, Nf4GoldenTest, testing::Values("small", "tail", "partial"),
                         [](const auto& info) { return std::string(info.param); });

class Nf4DoubleGoldenTest : public testing::TestWithParam<const char*> {};

TEST_P(Nf4DoubleGoldenTest, QuantizesAndDequantizesAsBitsandbytes) {
  const BitsFile golden(std::string("nf4_") + GetParam() + "_double");
  const std::vector<float> weight = golden.Values<float>("weight");
  const auto n = static_cast<int64_t>(weight.size());
  const Quantized got = Quantize(weight);
  EXPECT_EQ(got.codes, golden.Values<uint8_t>("packed"));
  EXPECT_EQ(
      std::vector<float>(std::begin(kSignedDynamicMap.values), std::end(kSignedDynamicMap.values)),
      golden.Values<float>("absmax_code"));

  // Its offset is torch's sum in float32; its search does not always find the nearest code.
  const float offset = golden.Values<float>("absmax_offset")[0];
  EXPECT_LE(std::abs(std::bit_cast<int32_t>(got.constants[0]) - std::bit_cast<int32_t>(offset)), 2);
  const std::vector<float> groups = golden.Values<float>("absmax_scale");
  for (size_t g = 0; g < groups.size(); ++g) {
    EXPECT_NEAR(got.constants[1 + g], groups[g], 4 * 0x1p-24f * offset) << g;
  }
  const std::vector<uint8_t> codes = golden.Values<uint8_t>("absmax_q");
  for (size_t i = 0; i < codes.size(); ++i) {
    EXPECT_LE(std::abs(int{codes[i]} - int{got.absmax_codes[i]}), 1) << i;
  }

  Quantized theirs{got.codes, codes, {}, {offset}};
  theirs.constants.insert(theirs.constants.end(), groups.begin(), groups.end());
  EXPECT_EQ(Dequantize(theirs, true, n), golden.Values<float>("dequantised"));
}
INSTANTIATE_TEST_SUITE_P(Bits, Nf4DoubleGoldenTest,
                         testing::Values("small", "tail", "partial", "odd"),
                         [](const auto& info) { return std::string(info.param); });

// What a block stores is within half the widest gap of its values, of absmax.
TEST(Nf4Test, IsWithinHalfAGapForEveryTail) {
  for (const int64_t n : {1, 2, 63, 64, 65, 127, 257, 4096, 100003}) {
    const std::vector<float> weight = Weight(n);
    const Quantized quantized = Quantize(weight);
    const std::vector<float> once = Dequantize(quantized, false, n);
    for (size_t i = 0; i < weight.size(); ++i) {
      const float absmax = quantized.absmax[i / kNf4Block];
      EXPECT_LE(std::abs(once[i] - weight[i]), absmax * 0.5f * (1.0f - 0.6961928f) * 1.000001f);
    }
    if (n % 2 == 1) {
      EXPECT_EQ(quantized.codes.back() & 15, 0) << n;
    }
    // Twice: the widest gap of the map beside that of the codes.
    const std::vector<float> twice = Dequantize(quantized, true, n);
    for (size_t i = 0; i < weight.size(); ++i) {
      const float group = quantized.constants[1 + i / (kNf4Block * kNf4ScaleGroup)];
      EXPECT_LE(std::abs(twice[i] - once[i]), group * (0.9f / 64 / 2) * 1.001f + 1e-7f) << i;
    }
  }
}

TEST(Nf4Test, ZerosStayZero) {
  const std::vector<float> zeros(130);
  const Quantized quantized = Quantize(zeros);
  EXPECT_EQ(quantized.codes, std::vector<uint8_t>(65, 0x77));
  EXPECT_EQ(Dequantize(quantized, false, 130), zeros);
  EXPECT_EQ(Dequantize(quantized, true, 130), zeros);
}

// Parts begin with a block, also inside a group.
TEST(Nf4Test, PartsAreDequantisedAsTheWhole) {
  const int64_t n = 40'000;
  const Quantized all = Quantize(Weight(n));
  for (const bool twice : {false, true}) {
    const std::vector<float> whole = Dequantize(all, twice, n);
    for (const int64_t block : {1, 255, 256, 300}) {
      const int64_t begin = block * kNf4Block, count = std::min<int64_t>(n - begin, 20'000);
      const OnDevice<uint8_t> codes(all.codes), absmax_codes(all.absmax_codes);
      const OnDevice<float> absmax(all.absmax), constants(all.constants), out(count);
      Nf4DequantizeArgs args{
          .elements = count, .codes = codes.data() + begin / 2, .out = out.data()};
      if (twice) {
        args.absmax_codes = absmax_codes.data() + block;
        args.constants = constants.data();
        args.first_block = block;
      } else {
        args.absmax = absmax.data() + block;
      }
      Nf4Dequantize(args, nullptr);
      Synchronize(nullptr);
      const std::vector<float> part = out.Read();
      EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + begin))
          << block << (twice ? " twice" : "");
    }
  }
}

TEST(Nf4Test, PiecesAreTheWhole) {
  const std::vector<float> weight = Weight(1000);
  const Quantized whole = Quantize(weight);
  const Quantized first = Quantize({weight.begin(), weight.begin() + 640});
  const Quantized rest = Quantize({weight.begin() + 640, weight.end()});
  EXPECT_TRUE(std::equal(first.codes.begin(), first.codes.end(), whole.codes.begin()));
  EXPECT_TRUE(std::equal(rest.codes.begin(), rest.codes.end(), whole.codes.begin() + 320));
  EXPECT_TRUE(std::equal(rest.absmax.begin(), rest.absmax.end(), whole.absmax.begin() + 10));
}

}  // namespace
}  // namespace nf4_test
}  // namespace coxswain::kernels
