// Attention whose forward multiplies codes in E4M3, against its formulas in float64.
#include <limits>

#include "kernels/attention/fp8_attention.h"
#include "tests/kernels/attention/fp8_attention_reference.h"
#include "tests/kernels/cuda/attention_problem.h"

namespace coxswain::kernels {
namespace gpu_attention_test {
namespace {

Problem MakeFp8(const HeadShape& shape, std::vector<int32_t> lengths) {
  Problem p = Make(Algorithm::kPacked, shape, std::move(lengths));
  p.spec.fp8 = true;
  return p;
}

class Fp8AttentionGpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!AttentionSupports(MakeFp8({2, 1, 64}, {}).spec)) {
      GTEST_SKIP() << "this GPU has no attention in FP8";
    }
  }
};

struct ExpectedRows {
  Doubles out, lse;
};

ExpectedRows ExpectRows(const Problem& p, const Floats& qkv) {
  const Fp8AttentionReference reference(p.spec, qkv, p.sinks, p.lengths);
  const Fp8AttentionWant& want = reference.want();
  ExpectedRows rows{.out = want.out, .lse = Doubles(want.lse.size())};
  int64_t start = 0;
  for (const int64_t length : p.lengths) {
    for (int64_t h = 0; h < p.spec.num_heads; ++h) {
      for (int64_t i = 0; i < length; ++i) {
        rows.lse[Size(SumIndex(p, start, length, i, h))] =
            want.lse[Size(h * p.tokens() + start + i)];
      }
    }
    start += length;
  }
  return rows;
}

// The tensor core adds products of codes with 13 bits behind the largest one's first, so a score of
// normal q and k (below 6) is off by 2^-11. A probability beside the middle of two codes takes the
// other one: of a share 2^-11 / 2^-4 of them, each then off by 2^-3 at most. The L2 norm of these
// is sqrt(2^-7) 2^-3 = 0.011, but the sums over keys and the first roundings of out, 2^-9, come to
// less. An exact attention is 0.03 to 0.05 away: see Differs.
constexpr double kBound = 0.012;

void CheckFormulas(const Problem& p, const Floats& qkv) {
  SCOPED_TRACE(testing::Message() << p.spec.num_heads << "/" << p.spec.num_kv_heads << " x "
                                  << p.spec.head_dim << " and " << ValueDim(p.spec) << " window "
                                  << p.spec.window << " sinks " << p.spec.sinks);
  const Result got = Compute(p, qkv, RandomDout(p));
  const ExpectedRows want = ExpectRows(p, qkv);
  ExpectRelativeError(got.out, want.out, kBound, "out");
  ExpectRelativeError(got.lse, want.lse, 1e-3, "lse");
}
void CheckFormulas(const Problem& p) { CheckFormulas(p, RandomQkv(p)); }

TEST_F(Fp8AttentionGpuTest, FormulasOverOddDocuments) {
  for (const HeadShape& shape :
       {HeadShape{14, 2, 64}, HeadShape{7, 1, 128}, HeadShape{2, 2, 16}, HeadShape{4, 2, 96},
        HeadShape{8, 2, 128}, HeadShape{4, 2, 64, 128}, HeadShape{3, 1, 128, 64},
        HeadShape{5, 1, 112, 80}}) {
    CheckFormulas(MakeFp8(shape, kOddLengths));
    CheckFormulas(MakeFp8(shape, {300, 1, 0, 129, 257}));
  }
}

TEST_F(Fp8AttentionGpuTest, LengthsAroundTheTiles) {
  for (const HeadShape& shape : {HeadShape{7, 1, 128}, HeadShape{2, 2, 128}, HeadShape{3, 1, 64}}) {
    CheckFormulas(MakeFp8(shape, {15, 16, 17, 18, 19, 31, 33, 63, 64, 65}));
    CheckFormulas(MakeFp8(shape, {127, 128, 129, 191, 192, 193, 255, 256, 257, 383, 385}));
  }
}

// A tensor core cuts off what it adds to a sum of codes, so that sums of many positive terms come
// out small: after runs of 3,072 keys they were by 5 %. A tile has 4 steps.
TEST_F(Fp8AttentionGpuTest, SumsOfLongDocumentsLoseNothing) {
  const Problem p = MakeFp8({2, 1, 32}, {512, 5000});
  Floats qkv = RandomQkv(p);
  const int64_t first_v = 3 * 32;
  for (size_t i = 0; i < qkv.size(); ++i) {
    if (static_cast<int64_t>(i) % p.row() >= first_v) qkv[i] = qkv[i] / 8 + 1;
  }
  const Floats out = Compute(p, qkv, RandomDout(p)).out;
  const ExpectedRows want = ExpectRows(p, qkv);
  const int64_t first = (512 + 4500) * p.out_row(), last = (512 + 5000) * p.out_row();
  double got_sum = 0, want_sum = 0;
  for (int64_t i = first; i < last; ++i) {
    got_sum += out[Size(i)];
    want_sum += want.out[Size(i)];
  }
  EXPECT_NEAR(got_sum / want_sum, 1.0, 96 * 0x1p-14);
  ExpectRelativeError(out, want.out, kBound, "out");
}

TEST_F(Fp8AttentionGpuTest, GroupsOfEverySize) {
  for (const int64_t group : {1, 2, 3, 4, 5, 6, 7, 8, 14, 64}) {
    const int32_t length = group > 8 ? 40 : 135;
    CheckFormulas(MakeFp8({group, 1, 128}, {length, 7, 0, 65}));
  }
}

TEST_F(Fp8AttentionGpuTest, WindowsAcrossTilesOfKeys) {
  for (const int64_t window : {1, 31, 64, 128, 129, 192, 193}) {
    Problem p = MakeFp8({3, 1, 128}, {600, 1, 130});
    p.spec.window = window;
    CheckFormulas(p);
  }
}

TEST_F(Fp8AttentionGpuTest, SinksTakePartInTheSoftmax) {
  for (const int64_t window : {0, 40, 128}) {
    Problem p = WithSinks(MakeFp8({6, 2, 128}, kOddLengths), MixedSinks());
    p.spec.window = window;
    CheckFormulas(p);
  }
}

// Whether the bound would find an attention without codes.
TEST_F(Fp8AttentionGpuTest, Differs) {
  const Problem p = MakeFp8({8, 2, 128}, {300, 65});
  Problem exact = p;
  exact.spec.fp8 = false;
  const Floats qkv = RandomQkv(p), dout = RandomDout(p);
  const Floats with_codes = Compute(p, qkv, dout).out, without = Compute(exact, qkv, dout).out;
  double difference = 0, norm = 0;
  for (size_t i = 0; i < without.size(); ++i) {
    difference += std::pow(double{with_codes[i]} - double{without[i]}, 2);
    norm += std::pow(double{without[i]}, 2);
  }
  EXPECT_GT(std::sqrt(difference / norm), 2 * kBound);
  EXPECT_LT(std::sqrt(difference / norm), 0.08);
}

// Tiles of keys and of values whose sizes are far apart, each with a scale of its own.
TEST_F(Fp8AttentionGpuTest, ScalesAreThoseOfTheirTile) {
  const Problem p = MakeFp8({4, 2, 128}, {200, 900});
  Floats qkv = RandomQkv(p);
  const int64_t first_k = p.spec.num_heads * 128, first_v = first_k + 2 * 128;
  for (int64_t t = 0; t < p.tokens(); ++t) {
    const int64_t tile = (t < 200 ? t : t - 200) / kFp8AttentionKeys;
    const float of_keys = std::ldexp(1.0f, static_cast<int>(tile % 3) * 2 - 4);
    const float of_values = std::ldexp(1.0f, static_cast<int>(tile % 4) * 12 - 20);
    for (int64_t c = first_k; c < p.row(); ++c) {
      qkv[Size(t * p.row() + c)] *= c < first_v ? of_keys : of_values;
    }
  }
  CheckFormulas(p, qkv);
}

// Powers of two go through codes, scales and sums without a rounding.
TEST_F(Fp8AttentionGpuTest, PowersOfTwoChangeNoBits) {
  const Problem p = MakeFp8({4, 2, 128}, {300, 65});
  Floats qkv = RandomQkv(p);
  const Floats dout = RandomDout(p);
  const Result before = Compute(p, qkv, dout);
  const int64_t first_k = p.spec.num_heads * 128, first_v = first_k + 2 * 128;
  for (size_t i = 0; i < qkv.size(); ++i) {
    const int64_t column = static_cast<int64_t>(i) % p.row();
    qkv[i] *= column < first_k ? 8.0f : column < first_v ? 0.125f : 1024.0f;
  }
  const Result after = Compute(p, qkv, dout);
  Floats scaled = before.out;
  for (float& x : scaled) x *= 1024.0f;
  EXPECT_TRUE(SameBits(after.out, scaled));
  EXPECT_TRUE(SameBits(after.lse, before.lse));
}

// The backward reads what the codes stand for: with that in the place of q, k and v, the exact
// attention has the same scores, and its gradient is off by the codes of P alone.
TEST_F(Fp8AttentionGpuTest, BackwardIsThatOfWhatTheCodesStandFor) {
  const Problem p = MakeFp8({8, 2, 128}, {300, 0, 65, 1});
  Problem plain = p;
  plain.spec.fp8 = false;
  const Floats qkv = RandomQkv(p), dout = RandomDout(p);
  Floats rounded;
  const Result with_codes = Compute(p, qkv, dout, false, nullptr, &rounded);
  const Result exact = Compute(plain, rounded, dout), raw = Compute(plain, qkv, dout);
  ExpectRelativeError(with_codes.lse, Double(exact.lse), 1e-4, "lse");
  EXPECT_LE(WorstHead(p.spec, with_codes.dqkv, Double(exact.dqkv), 0.03), 1.0);
  EXPECT_GT(WorstHead(p.spec, with_codes.dqkv, Double(raw.dqkv), 0.03), 1.0);
}

TEST_F(Fp8AttentionGpuTest, SameBitsAgainByGraphsAndForDenseDocuments) {
  for (const HeadShape& shape : {HeadShape{14, 2, 64}, HeadShape{8, 2, 128}}) {
    const Problem packed = MakeFp8(shape, {300, 300, 300, 300, 300});
    Problem dense = packed;
    dense.algorithm = Algorithm::kDense;
    const Floats qkv = RandomQkv(packed), dout = RandomDout(packed);
    const Result first = Compute(packed, qkv, dout);
    EXPECT_TRUE(first == Compute(packed, qkv, dout));
    EXPECT_TRUE(first == Compute(packed, qkv, dout, true));
    EXPECT_TRUE(first == Compute(dense, qkv, dout));
  }
}

// A document's rows and a document of NaN beside them.
TEST_F(Fp8AttentionGpuTest, DocumentsDoNotReachEachOther) {
  for (const int32_t length : {5, 64, 100, 130, 161, 300}) {
    const Problem alone = MakeFp8({4, 2, 128}, {length});
    const Problem between = MakeFp8({4, 2, 128}, {77, length, 45});
    const Floats own = RandomQkv(alone), dout = RandomDout(alone);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    Floats qkv(Size(between.tokens() * between.row()), nan);
    Floats all_dout(Size(between.tokens() * between.out_row()), 0.0f);
    std::copy(own.begin(), own.end(), qkv.begin() + 77 * between.row());
    std::copy(dout.begin(), dout.end(), all_dout.begin() + 77 * between.out_row());
    const Floats want = Compute(alone, own, dout).out;
    const Floats got = Compute(between, qkv, all_dout).out;
    const auto first = got.begin() + 77 * between.out_row();
    EXPECT_TRUE(SameBits(want, Floats(first, first + static_cast<int64_t>(want.size())))) << length;
  }
}

// What is no number is in all rows of out that read it, so that the step is skipped.
TEST_F(Fp8AttentionGpuTest, WhatIsNoNumberIsInEveryRowThatReadsIt) {
  const Problem p = MakeFp8({2, 1, 128}, {300});
  const int64_t token = 200;
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const int64_t column : {int64_t{3}, int64_t{2 * 128 + 5}, int64_t{3 * 128 + 7}}) {
      Floats qkv = RandomQkv(p);
      qkv[Size(token * p.row() + column)] = bad;
      const Floats out = Compute(p, qkv, RandomDout(p)).out;
      const int64_t last = column < 128 ? token : p.tokens() - 1;
      for (int64_t t = token; t <= last; ++t) {
        EXPECT_FALSE(std::isfinite(out[Size(t * p.out_row())])) << column << " " << t;
      }
      for (int64_t t = 0; t < 128; ++t) {  // rows of the tile before
        ASSERT_TRUE(std::isfinite(out[Size(t * p.out_row())])) << column << " " << t;
      }
    }
  }
}

TEST_F(Fp8AttentionGpuTest, RefusesWhatItDoesNotTake) {
  const auto takes = [](const HeadShape& shape, float softcap) {
    Problem p = MakeFp8(shape, {});
    p.spec.softcap = softcap;
    return AttentionSupports(p.spec);
  };
  EXPECT_TRUE(takes({4, 2, 128}, 0.0f));
  EXPECT_FALSE(takes({4, 2, 128}, 30.0f));
  EXPECT_FALSE(takes({4, 2, 192, 128}, 0.0f));
  EXPECT_FALSE(takes({4, 2, 256}, 0.0f));
  EXPECT_FALSE(takes({4, 2, 72}, 0.0f));
  Problem p = MakeFp8({4, 2, 128}, {});
  p.spec.dtype = DType::kFloat32;
  EXPECT_FALSE(AttentionSupports(p.spec));
}

}  // namespace
}  // namespace gpu_attention_test
}  // namespace coxswain::kernels
