#include "kernels/tensors/whole_tensors.h"

#include <bit>
#include <limits>

#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace convert_test {
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

}  // namespace
}  // namespace convert_test
}  // namespace coxswain::kernels
