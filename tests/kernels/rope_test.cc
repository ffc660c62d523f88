#include "kernels/rope.h"

// Before Tensor.h, for clang.
#include <ATen/core/ivalue.h>

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sin.h>

#include "tests/kernels/testing.h"
#include "tests/reference/heads.h"

namespace coxswain::kernels {
namespace rope_test {
namespace {

TEST(RopeTest, FrequenciesFollowTheFormula) {
  for (const int64_t dim : {2, 10, 64, 128}) {
    for (const double theta : {10000.0, 500000.0, 1000000.0}) {
      const std::vector<float> got = RopeInverseFrequencies({.rotated = dim, .theta = theta});
      const std::vector<double> want = reference::RopeFrequencies(dim, theta, nullptr);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i) {
        // Exponent, power and quotient round once each; an exponent's error of u is multiplied by
        // ln theta < 14.
        EXPECT_NEAR(got[i] / want[i], 1.0, 16 * kUnit);
      }
    }
  }
}

TEST(RopeTest, Llama3ScalingHasThreeBands) {
  const RopeFrequencies spec{.rotated = 64,
                             .theta = 500000.0,
                             .scaling = RopeScaling::kBands,
                             .factor = 8.0,
                             .low_freq_factor = 1.0,
                             .high_freq_factor = 4.0,
                             .original_max_position = 64};
  const reference::Llama3Scaling scaling{8.0, 1.0, 4.0, 64.0};
  const std::vector<float> got = RopeInverseFrequencies(spec);
  const std::vector<double> want = reference::RopeFrequencies(64, 500000.0, &scaling);
  const std::vector<double> plain = reference::RopeFrequencies(64, 500000.0, nullptr);
  int kept = 0, divided = 0, blended = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    // In the blend, smooth = (ratio - 1)/3 with ratio <= 4 carries 4 x 20 u more.
    EXPECT_NEAR(got[i] / want[i], 1.0, 100 * kUnit);
    const double ratio = want[i] / plain[i];
    (ratio == 1.0 ? kept : ratio == 0.125 ? divided : blended)++;
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(blended, 0);
  EXPECT_GT(divided, 0);
}

TEST(RopeTest, LinearScalingDividesEveryFrequency) {
  const std::vector<float> plain = RopeInverseFrequencies({.rotated = 64});
  const std::vector<float> scaled = RopeInverseFrequencies(
      {.rotated = 64, .scaling = RopeScaling::kLinear, .factor = 4.0});  // exact
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(scaled[i], plain[i] / 4);
}

// In fp64 with the bounds worked out by hand: of head_dim 64, theta 1e4, length 4096 the wave of
// dimension d turns 32 times at d = 10.5 and once at d = 22.5.
TEST(RopeTest, YarnKeepsFastWavesAndDividesSlowOnes) {
  const RopeFrequencies spec{.rotated = 64,
                             .theta = 10000.0,
                             .scaling = RopeScaling::kYarn,
                             .factor = 8.0,
                             .original_max_position = 4096,
                             .attention_factor = 1.25};
  const std::vector<float> got = RopeInverseFrequencies(spec);
  const std::vector<double> plain = reference::RopeFrequencies(64, 10000.0, nullptr);
  for (size_t i = 0; i < got.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - 10.0) / (23.0 - 10.0), 0.0, 1.0);
    const double want = plain[i] * (1 - ramp) + plain[i] / 8 * ramp;
    EXPECT_NEAR(got[i] / want, 1.0, 40 * kUnit) << i;
  }
  RopeFrequencies exact = spec;
  exact.truncate = false;
  EXPECT_NE(RopeInverseFrequencies(exact), got);
  const RopeTable table = BuildRopeTable(spec, 3);
  EXPECT_EQ(table.cos[0], 1.25f);
  EXPECT_FLOAT_EQ(table.sin[32], 1.25f * std::sin(1.0f));
}

TEST(RopeTest, LongRopeDividesEachFrequencyByItsFactor) {
  RopeFrequencies spec{
      .rotated = 64, .scaling = RopeScaling::kLongRope, .factor = 32.0, .attention_factor = 1.25};
  for (int i = 0; i < 32; ++i) spec.factors.push_back(1.0 + 0.37 * i);
  const std::vector<float> got = RopeInverseFrequencies(spec);
  const std::vector<double> plain = reference::RopeFrequencies(64, 10000.0, nullptr);
  // A factor's rounding and a product more than the 16 u of the plain frequency.
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i] / (plain[i] / spec.factors[i]), 1.0, 18 * kUnit) << i;
  }
  const RopeTable table = BuildRopeTable(spec, 3);
  EXPECT_EQ(table.cos[0], 1.25f);
  EXPECT_FLOAT_EQ(table.sin[32], 1.25f * std::sin(1.0f));
  spec.factors.pop_back();
  EXPECT_THROW(RopeInverseFrequencies(spec), std::invalid_argument);
}

TEST(RopeTest, RefusesOddAndLongRotations) {
  EXPECT_THROW(RopeInverseFrequencies({.rotated = 7}), std::invalid_argument);
  EXPECT_FALSE(RopeSupports({.num_heads = 1, .num_kv_heads = 1, .head_dim = 7}));
  EXPECT_TRUE(RopeSupports({.num_heads = 1, .num_kv_heads = 1, .head_dim = 7, .rotated = 6}));
  for (const int64_t rotated : {-2, 3, 10}) {
    EXPECT_FALSE(
        RopeSupports({.num_heads = 1, .num_kv_heads = 1, .head_dim = 8, .rotated = rotated}));
  }
}

constexpr double kTheta = 100.0;

struct Problem {
  Problem(int64_t rotated, bool interleaved)
      : spec{.num_heads = 3,
             .num_kv_heads = 1,
             .head_dim = 10,
             .rotated = rotated,
             .interleaved = interleaved} {}
  int64_t row() const { return (spec.num_heads + 2 * spec.num_kv_heads) * spec.head_dim; }
  RopeArgs Args(Floats* qkv) const {
    return {.spec = spec,
            .tokens = tokens,
            .qkv = qkv->data(),
            .cos = table.cos.data(),
            .sin = table.sin.data(),
            .positions = positions.data()};
  }
  RopeSpec spec;
  int64_t tokens = 7;
  std::vector<int32_t> positions = {0, 1, 2, 0, 1, 0, 9};  // three documents
  RopeTable table = BuildRopeTable({.rotated = RotatedElements(spec), .theta = kTheta}, 10);
};

// All of a head, part of it, one pair; either layout.
std::vector<Problem> Problems() {
  std::vector<Problem> problems;
  for (const bool interleaved : {false, true}) {
    for (const int64_t rotated : {0, 10, 6, 2}) problems.push_back(Problem(rotated, interleaved));
  }
  return problems;
}

TEST(RopeTest, RotatesQAndKByTheTokensPosition) {
  for (const Problem& p : Problems()) {
    const Floats qkv = Normal(p.tokens * p.row(), 1);
    Floats got = qkv;
    RopeForward(p.Args(&got), nullptr);
    Doubles want = Double(qkv);
    const int64_t rotated = RotatedElements(p.spec);
    const std::vector<double> frequencies = reference::RopeFrequencies(rotated, kTheta, nullptr);
    for (int64_t t = 0; t < p.tokens; ++t) {
      Doubles cos, sin;
      for (double f : frequencies) {
        cos.push_back(std::cos(p.positions[Size(t)] * f));
        sin.push_back(std::sin(p.positions[Size(t)] * f));
      }
      for (int64_t h = 0; h < 4; ++h) {
        reference::RotateHead(rotated, cos.data(), sin.data(), 1.0,
                              &want[Size(t * p.row() + h * 10)], p.spec.interleaved);
      }
    }
    // The angle is below 10 and off by 16 + 1 u of itself; a, b below 5; 3 roundings of the result.
    ExpectWithin(got, want, (10 * 17 + 1 + 3) * kUnit * 10, "qkv");
  }
}

TEST(RopeTest, LeavesTheRestOfAHeadAndV) {
  for (const Problem& p : Problems()) {
    const Floats qkv = Normal(p.tokens * p.row(), 1);
    Floats turned = qkv;
    RopeForward(p.Args(&turned), nullptr);
    for (int64_t i = 0; i < p.tokens * p.row(); ++i) {
      const int64_t column = i % p.row();
      if (column < 40 && column % 10 < RotatedElements(p.spec)) continue;
      EXPECT_EQ(turned[Size(i)], qkv[Size(i)]) << column;
    }
  }
}

TEST(RopeTest, BackwardTurnsBack) {
  for (const Problem& p : Problems()) {
    const Floats qkv = Normal(p.tokens * p.row(), 2);
    Floats turned = qkv;
    RopeForward(p.Args(&turned), nullptr);
    EXPECT_FALSE(SameBits(turned, qkv));
    RopeBackward(p.Args(&turned), nullptr);
    ExpectWithin(turned, Double(qkv), 12 * kUnit * 5,
                 "qkv");  // c^2 + s^2 = 1 within 4 u; 6 roundings
  }
}

// Against the rotation alone, whose elements one product more rounds once.
TEST(RopeTest, ScalesAllOfEachQueryHeadBothWays) {
  const Floats scale = BuildQueryScale(0.5, 2, 10);  // above 1 from position 2 on
  for (const Problem& p : Problems()) {
    for (const auto rotate : {RopeForward, RopeBackward}) {
      const Floats qkv = Normal(p.tokens * p.row(), 3);
      Floats turned = qkv, scaled = qkv;
      RopeArgs args = p.Args(&turned);
      rotate(args, nullptr);
      args.qkv = scaled.data();
      args.query_scale = scale.data();
      rotate(args, nullptr);
      for (int64_t i = 0; i < p.tokens * p.row(); ++i) {
        const bool query = i % p.row() < p.spec.num_heads * p.spec.head_dim;
        const float s = query ? scale[Size(p.positions[Size(i / p.row())])] : 1.0f;
        ASSERT_EQ(scaled[Size(i)], s * turned[Size(i)]) << i % p.row();
      }
    }
  }
}

TEST(RopeTest, QueryScaleGrowsByTheLengthsBehind) {
  const std::vector<float> scale = BuildQueryScale(0.1, 4, 20);
  ASSERT_EQ(scale.size(), 20u);
  for (size_t p = 0; p < scale.size(); ++p) {
    const double lengths = std::floor(static_cast<double>(p) / 4);
    EXPECT_NEAR(scale[p], 1 + 0.1 * std::log(1 + lengths), 2 * kUnit) << p;
  }
  EXPECT_EQ(scale[3], 1.0f);
  EXPECT_GT(scale[4], 1.0f);
  EXPECT_THROW(BuildQueryScale(0.1, 0, 20), std::invalid_argument);
}

TEST(RopeTest, NoTokens) {
  Problem p(0, false);
  p.tokens = 0;
  Floats none;
  RopeForward(p.Args(&none), nullptr);
}

void ExpectNear(const at::Tensor& want, const Floats& got, float bound) {
  const at::Tensor flat = want.contiguous();
  ASSERT_EQ(flat.numel(), static_cast<int64_t>(got.size()));
  for (int64_t i = 0; i < flat.numel(); ++i) {
    ASSERT_NEAR(flat.data_ptr<float>()[i], got[Size(i)], bound);
  }
}

// The tables of transformers are the same float32 operations in libtorch. Ours are rounded once
// from double. libtorch's vectorised functions may be one unit off that; a table computed in
// another precision or order would be off by the position times a unit.
TEST(RopeTorchTest, TablesEqualTransformersWithinOneUnit) {
  const float unit = static_cast<float>(2 * kUnit);
  for (const int64_t dim : {16, 64, 128}) {
    for (const double theta : {10000.0, 500000.0, 1000000.0}) {
      const at::Tensor exponent =
          at::arange(0, dim, 2).to(at::kFloat).div(static_cast<double>(dim));
      const at::Tensor inverse = at::pow(theta, exponent).reciprocal();
      const Floats got = RopeInverseFrequencies({.rotated = dim, .theta = theta});
      ExpectNear(inverse, got, unit);
      const int64_t positions = 2000;
      const at::Tensor angle =
          at::outer(at::arange(positions).to(at::kFloat),
                    at::from_blob(const_cast<float*>(got.data()), {dim / 2}, at::kFloat));
      const RopeTable table = BuildRopeTable({.rotated = dim, .theta = theta}, positions);
      ExpectNear(at::cos(angle), table.cos, unit);
      ExpectNear(at::sin(angle), table.sin, unit);
    }
  }
}

}  // namespace
}  // namespace rope_test
}  // namespace coxswain::kernels
