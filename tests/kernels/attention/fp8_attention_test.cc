#include "kernels/attention/fp8_attention.h"

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/attention/attention.h"
#include "tests/kernels/attention/fp8_attention_reference.h"
#include "tests/kernels/testing.h"
#include "tests/reference/attention.h"

namespace coxswain::kernels {
namespace fp8_attention_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Problem {
  AttentionSpec spec;
  std::vector<int32_t> lengths;
  Floats sinks = {};

  int64_t tokens() const { return std::accumulate(lengths.begin(), lengths.end(), int64_t{0}); }
  int64_t row() const { return PackedRow(spec); }
  int64_t out_row() const { return spec.num_heads * ValueDim(spec); }
  int64_t longest() const {
    return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
  }
  AttentionExtents extents() const {
    return {.tokens = tokens(),
            .documents = static_cast<int64_t>(lengths.size()),
            .max_length = longest()};
  }
};

Problem Make(int64_t heads, int64_t kv_heads, int64_t dim, int64_t window,
             std::vector<int32_t> lengths) {
  return {.spec = {.num_heads = heads,
                   .num_kv_heads = kv_heads,
                   .head_dim = dim,
                   .window = window,
                   .scale = 1.0f / std::sqrt(static_cast<float>(dim)),
                   .fp8 = true},
          .lengths = std::move(lengths)};
}
Problem WithValues(Problem p, int64_t value_dim) {
  p.spec.value_dim = value_dim;
  return p;
}
Problem WithSinks(Problem p, Floats sinks) {
  p.spec.sinks = true;
  p.sinks = std::move(sinks);
  return p;
}

struct Result {
  Floats out, lse, rounded;
};

Result Forward(const Problem& p, const Floats& qkv) {
  std::vector<int32_t> cu = {0};
  for (const int32_t length : p.lengths) cu.push_back(cu.back() + length);
  Result r{Floats(Size(p.tokens() * p.out_row()), 7.0f),
           Floats(Size(p.tokens() * p.spec.num_heads), 7.0f), Floats(qkv.size(), 7.0f)};
  Scratch scratch(AttentionForwardWorkspaceBytes(p.spec, p.extents()));
  const ExpectNoAllocation launch;
  AttentionForward({.spec = p.spec,
                    .tokens = p.tokens(),
                    .documents = {.count = static_cast<int64_t>(p.lengths.size()),
                                  .cu_seqlens = cu.data(),
                                  .max_length = p.longest()},
                    .in = PackedInputs(p.spec, qkv.data()),
                    .sinks = p.spec.sinks ? p.sinks.data() : nullptr,
                    .out = r.out.data(),
                    .lse = r.lse.data(),
                    .rounded = PackedOutputs(p.spec, r.rounded.data()),
                    .workspace = scratch.view()},
                   nullptr);
  return r;
}

Floats RandomQkv(const Problem& p) { return Normal(p.tokens() * p.row(), 1); }

void ExpectNear(const Floats& got, const Doubles& want, const Doubles& may, const char* what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_LE(std::abs(got[i] - want[i]), may[i] + 1e-38)
        << what << " " << i << " is " << got[i] << ", expected " << want[i];
  }
}

void CheckAgainstReference(const Problem& p, float size = 1.0f) {
  Floats qkv = RandomQkv(p);
  for (float& value : qkv) value *= size;
  const Result got = Forward(p, qkv);
  const Fp8AttentionReference reference(p.spec, qkv, p.sinks, p.lengths);
  const Fp8AttentionWant& want = reference.want();
  ExpectNear(got.out, want.out, want.out_may, "out");
  ExpectNear(got.lse, want.lse, want.lse_may, "lse");
}

TEST(Fp8AttentionTest, GroupedHeadsOverOddDocuments) {
  CheckAgainstReference(Make(6, 2, 16, 0, {1, 2, 7, 64, 65, 127, 128, 129, 1, 300}));
  CheckAgainstReference(Make(3, 3, 48, 0, {33, 4}));
  CheckAgainstReference(Make(14, 1, 32, 0, {40, 17, 1, 150}));
  CheckAgainstReference(Make(2, 1, 128, 0, {260}));
}

TEST(Fp8AttentionTest, WindowsOfEverySizeAroundTheTile) {
  for (const int64_t window : {1, 2, 16, 63, 127, 128, 129, 200, 256, 1000}) {
    CheckAgainstReference(Make(4, 2, 16, window, {300, 1, 130, 64}));
  }
}

TEST(Fp8AttentionTest, ValuesOfAnotherWidth) {
  CheckAgainstReference(WithValues(Make(4, 2, 64, 0, {70, 0, 33, 140}), 16));
  CheckAgainstReference(WithValues(Make(3, 1, 16, 20, {170, 1}), 96));
}

TEST(Fp8AttentionTest, SinksTakePartInTheSoftmax) {
  const Floats mixed = {0.0f, -1.5f, 2.0f, -40.0f, 40.0f, 0.25f};
  for (const int64_t window : {0, 1, 20, 128}) {
    CheckAgainstReference(WithSinks(Make(6, 2, 16, window, {1, 0, 131, 64, 0, 7}), mixed));
  }
}

TEST(Fp8AttentionTest, EmptyDocumentsAndNoTokens) {
  CheckAgainstReference(Make(4, 2, 16, 0, {0, 5, 0, 0, 9, 0}));
  Forward(Make(4, 2, 16, 0, {}), {});
}

// Scores of a row differ by hundreds, so that nearly all P have the code 0; and by nearly nothing.
TEST(Fp8AttentionTest, LargeAndSmallValues) {
  for (const float size : {30.0f, 0.01f}) CheckAgainstReference(Make(4, 2, 32, 0, {200, 3}), size);
}

// Alone a token has P = 1, whose code is 256: out is what its value rounds to.
TEST(Fp8AttentionTest, ALoneTokenReadsTheCodesOfItsValue) {
  const Problem p = Make(2, 1, 16, 0, std::vector<int32_t>(300, 1));
  const Floats qkv = RandomQkv(p);
  const Result r = Forward(p, qkv);
  const reference::Fp8Numbers numbers;
  for (int64_t t = 0; t < 300; ++t) {
    const auto value = qkv.begin() + t * p.row() + 3 * 16;
    double amax = 0;
    for (int64_t c = 0; c < 16; ++c) amax = std::max<double>(amax, std::abs(value[c]));
    const double scale = Fp8AttentionReference::Scale(amax);
    for (int64_t c = 0; c < 32; ++c) {
      const double code = numbers.Value(numbers.Code(static_cast<double>(value[c % 16]) / scale));
      ASSERT_EQ(static_cast<double>(r.out[Size(t * 32 + c)]), scale * code) << t << " " << c;
    }
  }
}

double Norm(const Doubles& values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

// A code is off by a relative e, uniform within 2^-4 at most: e^2 is 2^-8 / 3 on average at most.
// Products of q and k of independent signs have a sum of variance 1, which is off by twice that,
// and P relative to itself by as much; its code and that of the value add one e^2 each. Values of
// independent signs: the squares of what keys add to a row add up, and what they are off by, so
// that out is off by 4 2^-8 / 3 of its square.
TEST(Fp8AttentionTest, IsNearExactAttention) {
  for (const int64_t dim : {16, 64, 128}) {
    Problem p = Make(4, 2, dim, 0, {400});
    const Floats qkv = RandomQkv(p);
    const Result got = Forward(p, qkv);
    p.spec.fp8 = false;
    const Result exact = Forward(p, qkv);
    Doubles difference = Double(exact.out);
    for (size_t i = 0; i < difference.size(); ++i) difference[i] -= static_cast<double>(got.out[i]);
    const double relative = Norm(difference) / Norm(Double(exact.out));
    EXPECT_LE(relative, std::sqrt(4 * 0x1p-8 / 3)) << dim;
    EXPECT_GT(relative, 0.01) << dim;
  }
}

TEST(Fp8AttentionTest, ScaleAtItsEdges) {
  const auto of = [](float amax) { return Fp8AttentionScale(std::bit_cast<uint32_t>(amax)); };
  EXPECT_EQ(of(0.0f), 0x1p-40f);
  EXPECT_EQ(of(std::numeric_limits<float>::denorm_min()), 0x1p-40f);
  EXPECT_EQ(of(448 * 0x1p-40f), 0x1p-40f);
  EXPECT_EQ(of(std::nextafter(448 * 0x1p-40f, 1.0f)), 0x1p-39f);
  EXPECT_EQ(of(1.0f), 0x1p-8f);
  EXPECT_EQ(of(448.0f), 1.0f);
  EXPECT_EQ(of(std::nextafter(448.0f, 449.0f)), 2.0f);
  EXPECT_EQ(of(449.0f), 2.0f);
  EXPECT_EQ(of(std::numeric_limits<float>::max()), 0x1p120f);
  EXPECT_TRUE(std::isnan(of(kInfinity)));
  EXPECT_TRUE(std::isnan(of(kNan)));
  for (int exponent = -60; exponent < 128; ++exponent) {
    for (const float fraction : {1.0f, 1.5f, 1.75f, 1.7500001f, 1.999f}) {
      const float amax = std::ldexp(fraction, exponent);
      ASSERT_EQ(static_cast<double>(of(amax)), Fp8AttentionReference::Scale(amax)) << amax;
    }
  }
}

// Invariant kernels-5.
TEST(Fp8AttentionTest, PackedIsBitEqualToOneByOne) {
  const Problem packed = Make(4, 2, 16, 0, {3, 170, 1, 129, 20});
  const Floats qkv = RandomQkv(packed);
  const Result all = Forward(packed, qkv);
  int64_t start = 0;
  for (const int32_t length : packed.lengths) {
    const Problem one = Make(4, 2, 16, 0, {length});
    const auto rows = [&](const Floats& v, int64_t row) {
      return Floats(v.begin() + start * row, v.begin() + (start + length) * row);
    };
    EXPECT_TRUE(SameBits(Forward(one, rows(qkv, one.row())).out, rows(all.out, one.out_row())));
    start += length;
  }
}

bool IsNan(const Result& r, const Problem& p, int64_t token) {
  const auto row = r.out.begin() + token * p.out_row();
  return std::all_of(row, row + p.out_row(), [](float x) { return std::isnan(x); });
}
bool IsFinite(const Result& r, const Problem& p, int64_t token) {
  const auto row = r.out.begin() + token * p.out_row();
  return std::all_of(row, row + p.out_row(), [](float x) { return std::isfinite(x); });
}

// Invariant kernels-5.
TEST(Fp8AttentionTest, NanInOneDocumentLeavesTheOthersBitEqual) {
  const Problem p = Make(4, 2, 16, 0, {30, 70, 20});
  const Floats qkv = RandomQkv(p);
  Floats broken = qkv;
  std::fill(broken.begin() + 30 * p.row(), broken.begin() + 100 * p.row(), kNan);
  const Result clean = Forward(p, qkv), got = Forward(p, broken);
  for (const auto& [first, last] : {std::pair{0, 30}, std::pair{100, 120}}) {
    EXPECT_TRUE(std::equal(got.out.begin() + first * p.out_row(),
                           got.out.begin() + last * p.out_row(),
                           clean.out.begin() + first * p.out_row()));
  }
  for (int64_t t = 30; t < 100; ++t) EXPECT_TRUE(IsNan(got, p, t)) << t;
}

// A value that is no number makes the scale of its row of q or tile NaN, and all rows that read it.
TEST(Fp8AttentionTest, WhatIsNoNumberReachesTheRowsThatReadIt) {
  const Problem p = Make(1, 1, 16, 100, {400});
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    for (const int64_t part : {0, 1, 2}) {  // of q, k, v of row 130
      Floats qkv = RandomQkv(p);
      qkv[Size(130 * p.row() + part * 16 + 5)] = bad;
      const Result r = Forward(p, qkv);
      for (int64_t t = 0; t < 400; ++t) {
        // The last row that sees a key of the tile [128, 256) is 255 + 99.
        const bool reads = part == 0 ? t == 130 : t >= 128 && t <= 354;
        EXPECT_TRUE(reads ? IsNan(r, p, t) : IsFinite(r, p, t)) << bad << " " << part << " " << t;
      }
    }
  }
}

// Invariant kernels-3.
TEST(Fp8AttentionTest, SameBitsTwice) {
  const Problem p = Make(6, 2, 16, 40, {1, 2, 7, 64, 65, 131, 1, 43});
  const Floats qkv = RandomQkv(p);
  const Result a = Forward(p, qkv), b = Forward(p, qkv);
  EXPECT_TRUE(SameBits(a.out, b.out) && SameBits(a.lse, b.lse) && SameBits(a.rounded, b.rounded));
}

// q times 4 and k by 4 change their scales alone, v times 2 the scale of out.
TEST(Fp8AttentionTest, PowersOfTwoMoveIntoTheScales) {
  const Problem p = Make(4, 2, 32, 0, {200, 31});
  Floats qkv = RandomQkv(p);
  const Result before = Forward(p, qkv);
  const int64_t q = 4 * 32, k = q + 2 * 32;
  for (int64_t i = 0; i < static_cast<int64_t>(qkv.size()); ++i) {
    const int64_t column = i % p.row();
    qkv[Size(i)] *= column < q ? 4.0f : column < k ? 0.25f : 2.0f;
  }
  Result after = Forward(p, qkv);
  for (float& value : after.out) value *= 0.5f;
  EXPECT_TRUE(SameBits(after.out, before.out) && SameBits(after.lse, before.lse));
}

// What is rounded is what the reference multiplies; rounded once more it stays, and gives the same.
TEST(Fp8AttentionTest, RoundsToWhatItsCodesStandFor) {
  const Problem p = WithValues(Make(4, 2, 32, 0, {1, 130, 0, 65}), 48);
  const Floats qkv = RandomQkv(p);
  const Result r = Forward(p, qkv);
  for (size_t i = 0; i < qkv.size(); ++i) {
    // Half a step of a code of 4 bits, and the smallest step of the scale of a value below 8.
    ASSERT_LE(std::abs(r.rounded[i] - qkv[i]), std::abs(qkv[i]) / 16 + 8.0f / 448 * 0x1p-9f) << i;
  }
  const Result again = Forward(p, r.rounded);
  EXPECT_TRUE(SameBits(again.rounded, r.rounded) && SameBits(again.out, r.out) &&
              SameBits(again.lse, r.lse));
}

TEST(Fp8AttentionTest, RoundsInPlace) {
  const Problem p = Make(4, 2, 32, 0, {70, 150});
  Floats qkv = RandomQkv(p);
  const Result want = Forward(p, qkv);
  const std::vector<int32_t> cu = {0, 70, 220};
  Floats out(want.out.size()), lse(want.lse.size());
  Scratch scratch(AttentionForwardWorkspaceBytes(p.spec, p.extents()));
  AttentionForward({.spec = p.spec,
                    .tokens = p.tokens(),
                    .documents = {.count = 2, .cu_seqlens = cu.data(), .max_length = 150},
                    .in = PackedInputs(p.spec, qkv.data()),
                    .out = out.data(),
                    .lse = lse.data(),
                    .rounded = PackedOutputs(p.spec, qkv.data()),
                    .workspace = scratch.view()},
                   nullptr);
  EXPECT_TRUE(SameBits(qkv, want.rounded) && SameBits(out, want.out) && SameBits(lse, want.lse));
}

// P of the backward is that of the forward but for its codes: rows of it sum to 1.
TEST(Fp8AttentionTest, BackwardHasTheProbabilitiesOfTheForward) {
  const Problem p = Make(4, 2, 16, 0, {40, 150});
  const Floats qkv = RandomQkv(p);
  const Result r = Forward(p, qkv);
  const reference::AttentionShape<double> shape{150, 4, 2, 16, 0, p.spec.scale};
  const Doubles rounded = Double(r.rounded), raw = Double(qkv);
  for (int64_t h = 0; h < 4; ++h) {
    for (int64_t i = 0; i < 150; ++i) {
      double exact = 0, other = 0;
      reference::Probabilities<double>(shape, &rounded[Size(40 * p.row())], nullptr, h, i, &exact);
      reference::Probabilities<double>(shape, &raw[Size(40 * p.row())], nullptr, h, i, &other);
      EXPECT_NEAR(r.lse[Size(h * p.tokens() + 40 + i)], exact, 1e-5);
      if (i == 100) {
        EXPECT_GT(std::abs(exact - other), 1e-5);
      }
    }
  }
}

TEST(Fp8AttentionTest, RefusesToKeepWhatItRounds) {
  const Problem p = Make(2, 1, 16, 0, {3});
  const Floats qkv = RandomQkv(p);
  Floats out(Size(p.tokens() * p.out_row())), lse(6);
  const std::vector<int32_t> cu = {0, 3};
  Scratch scratch(AttentionForwardWorkspaceBytes(p.spec, p.extents()));
  EXPECT_THROW(
      AttentionForward({.spec = p.spec,
                        .tokens = 3,
                        .documents = {.count = 1, .cu_seqlens = cu.data(), .max_length = 3},
                        .in = PackedInputs(p.spec, qkv.data()),
                        .out = out.data(),
                        .lse = lse.data(),
                        .workspace = scratch.view()},
                       nullptr),
      std::invalid_argument);
}

TEST(Fp8AttentionTest, NamesWhatItSupports) {
  const auto supports = [](int64_t dim, int64_t value_dim, float softcap) {
    Problem p = WithValues(Make(2, 1, dim, 0, {}), value_dim);
    p.spec.softcap = softcap;
    return AttentionSupports(p.spec);
  };
  for (const int64_t dim : {16, 64, 80, 128}) EXPECT_TRUE(supports(dim, 0, 0.0f)) << dim;
  for (const int64_t dim : {8, 24, 144, 256}) EXPECT_FALSE(supports(dim, 0, 0.0f)) << dim;
  EXPECT_TRUE(supports(64, 128, 0.0f));
  EXPECT_FALSE(supports(64, 192, 0.0f));
  EXPECT_FALSE(supports(64, 8, 0.0f));
  EXPECT_FALSE(supports(64, 0, 30.0f));
}

}  // namespace
}  // namespace fp8_attention_test
}  // namespace coxswain::kernels
