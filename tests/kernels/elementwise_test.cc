// SwiGLU, embedding, row gather, add, sum, Philox and dropout.
#include <limits>
#include <set>

#include "common/philox.h"
#include "kernels/add.h"
#include "kernels/dropout.h"
#include "kernels/embedding.h"
#include "kernels/philox.h"
#include "kernels/reduce.h"
#include "kernels/row_gather.h"
#include "kernels/swiglu.h"
#include "tests/kernels/testing.h"
#include "tests/reference/swiglu.h"

namespace coxswain::kernels {
namespace {

TEST(SwigluTest, MatchesReferenceForEveryTailAndLargeInputs) {
  for (const int64_t n : {1, 2, 3, 4, 5, 6, 7, 15, 16, 31, 33, 97}) {
    const int64_t rows = 5;
    Floats gate_up = Normal(rows * 2 * n, 1, 4.0f);
    gate_up[0] = 90.0f;
    gate_up[Size(2 * n)] = -90.0f;
    gate_up[Size(4 * n)] = -1000.0f;
    gate_up[Size(6 * n)] = 1000.0f;
    const Floats dy = Normal(rows * n, 2);
    Floats y(Size(rows * n)), gradient = gate_up;
    SwigluForward(
        {.spec = {.intermediate = n}, .rows = rows, .gate_up = gate_up.data(), .y = y.data()},
        nullptr);
    SwigluBackward(
        {.spec = {.intermediate = n}, .rows = rows, .dy = dy.data(), .gate_up = gradient.data()},
        nullptr);
    for (int64_t t = 0; t < rows; ++t) {
      for (int64_t j = 0; j < n; ++j) {
        const double a = gate_up[Size(t * 2 * n + j)], b = gate_up[Size(t * 2 * n + n + j)];
        const double d = dy[Size(t * n + j)];
        const auto want = reference::SwigluBackward(d, a, b);
        // Exp is within 4 u, the logistic within 6 u, then 2 products; a (1 - s) is off by 8 u |a|
        // s.
        const double size = (1 + std::abs(a)) * (1 + std::abs(b));
        ASSERT_NEAR(y[Size(t * n + j)], reference::Swiglu(a, b), 8 * kUnit * size);
        const size_t at = Size(t * 2 * n + j);
        ASSERT_NEAR(gradient[at], want.gate, 16 * kUnit * size * std::abs(d));
        ASSERT_NEAR(gradient[at + Size(n)], want.up, 10 * kUnit * size * std::abs(d));
      }
    }
  }
}

TEST(SwigluTest, BackwardGivesTheOutputOnceMoreInPlaceOfItsGradient) {
  const int64_t n = 33, rows = 4;
  const Floats gate_up = Normal(rows * 2 * n, 1, 4.0f);
  Floats y(Size(rows * n)), plain = gate_up, again = gate_up, dy = Normal(rows * n, 2);
  SwigluForward(
      {.spec = {.intermediate = n}, .rows = rows, .gate_up = gate_up.data(), .y = y.data()},
      nullptr);
  SwigluBackward(
      {.spec = {.intermediate = n}, .rows = rows, .dy = dy.data(), .gate_up = plain.data()},
      nullptr);
  SwigluBackward({.spec = {.intermediate = n},
                  .rows = rows,
                  .dy = dy.data(),
                  .gate_up = again.data(),
                  .y = dy.data()},
                 nullptr);
  EXPECT_TRUE(SameBits(dy, y));
  EXPECT_TRUE(SameBits(again, plain));
}

TEST(SwigluTest, NanStaysAndTouchesNothingElse) {
  Floats gate_up(40, 1.0f), y(20);
  gate_up[3] = std::numeric_limits<float>::quiet_NaN();
  SwigluForward({.spec = {.intermediate = 20}, .rows = 1, .gate_up = gate_up.data(), .y = y.data()},
                nullptr);
  for (size_t j = 0; j < 20; ++j) EXPECT_EQ(std::isnan(y[j]), j == 3);
}

TEST(EmbeddingTest, GathersRowsAndAddsGradientsOfRepeatedIds) {
  const EmbeddingSpec spec{.vocab = 11, .hidden = 7};
  const std::vector<int32_t> ids = {3, 0, 3, 10, 3};
  const Floats weight = Normal(77, 1), dout = Normal(35, 2), before = Normal(77, 3);
  Floats out(35), dweight = before;
  EmbeddingForward(
      {.spec = spec, .tokens = 5, .ids = ids.data(), .weight = weight.data(), .out = out.data()},
      nullptr);
  EmbeddingBackward({.spec = spec,
                     .tokens = 5,
                     .ids = ids.data(),
                     .dout = dout.data(),
                     .dweight = dweight.data(),
                     .workspace = {}},
                    nullptr);
  Doubles want = Double(before);
  for (size_t t = 0; t < 5; ++t) {
    for (size_t j = 0; j < 7; ++j) {
      EXPECT_EQ(out[t * 7 + j], weight[Size(ids[t]) * 7 + j]);
      want[Size(ids[t]) * 7 + j] += dout[t * 7 + j];
    }
  }
  ExpectWithin(dweight, want, 3 * kUnit * 20, "dweight");  // at most 3 additions below 20
}

// Parts that cut rows add up to the whole, whose bits they have; -1 is no token, its row is not
// read.
TEST(EmbeddingTest, PartsOfTheGradientAddUpToTheWhole) {
  const EmbeddingSpec spec{.vocab = 11, .hidden = 7};
  const std::vector<int32_t> ids = {3, 0, -1, 3, 10, 3, -1};
  Floats dout = Normal(49, 2);
  dout[15] = dout[44] = std::numeric_limits<float>::quiet_NaN();
  const Floats before = Normal(77, 3);
  EmbeddingBackwardArgs args{
      .spec = spec, .tokens = 7, .ids = ids.data(), .dout = dout.data(), .workspace = {}};
  Floats whole = before;
  args.dweight = whole.data();
  EmbeddingBackward(args, nullptr);
  Floats parts = before;
  args.dweight = parts.data();
  for (const auto& [begin, end] :
       {std::pair<int64_t, int64_t>{0, 24}, {24, 24}, {24, 71}, {71, 77}}) {
    args.begin = begin;
    args.end = end;
    const Floats earlier = parts;
    EmbeddingBackward(args, nullptr);
    for (int64_t i = 0; i < 77; ++i) {
      const bool inside = i >= begin && i < end;
      ASSERT_EQ(parts[Size(i)], inside ? whole[Size(i)] : earlier[Size(i)]) << i;
    }
  }
  EXPECT_FALSE(SameBits(whole, before));
}

TEST(EmbeddingTest, RefusesAnIdOutsideTheVocabulary) {
  Floats weight(8), out(8);
  for (const int32_t id : {-1, 2}) {
    EXPECT_THROW(EmbeddingForward({.spec = {.vocab = 2, .hidden = 4},
                                   .tokens = 1,
                                   .ids = &id,
                                   .weight = weight.data(),
                                   .out = out.data()},
                                  nullptr),
                 std::invalid_argument);
  }
}

TEST(RowGatherTest, ScatterAddOfGatheredRowsDoublesThem) {
  const RowGatherSpec spec{.columns = 9};
  const std::vector<int32_t> index = {4, 0, 5};
  Floats tall = Normal(54, 1), rows(27);
  const Floats before = tall;
  GatherRows(
      {.spec = spec, .rows = 3, .index = index.data(), .in = tall.data(), .out = rows.data()},
      nullptr);
  ScatterAddRows(
      {.spec = spec, .rows = 3, .index = index.data(), .in = rows.data(), .out = tall.data()},
      nullptr);
  for (size_t i = 0; i < 54; ++i) {
    const bool taken = i / 9 == 4 || i / 9 == 0 || i / 9 == 5;
    EXPECT_EQ(tall[i], taken ? 2 * before[i] : before[i]);
  }
  GatherRows({.spec = spec, .rows = 0, .index = nullptr, .in = tall.data(), .out = nullptr},
             nullptr);
}

TEST(RowGatherTest, NoRowReadsAsZerosAndReceivesNothing) {
  const RowGatherSpec spec{.columns = 3};
  const std::vector<int32_t> index = {-1, 1, -1};
  const Floats tall = Normal(6, 1);
  Floats rows(9, std::nanf("")), target = tall;
  GatherRows(
      {.spec = spec, .rows = 3, .index = index.data(), .in = tall.data(), .out = rows.data()},
      nullptr);
  EXPECT_TRUE(SameBits(rows, {0, 0, 0, tall[3], tall[4], tall[5], 0, 0, 0}));
  const Floats added(9, 1.0f);
  ScatterAddRows(
      {.spec = spec, .rows = 3, .index = index.data(), .in = added.data(), .out = target.data()},
      nullptr);
  EXPECT_TRUE(SameBits(target, {tall[0], tall[1], tall[2], tall[3] + 1, tall[4] + 1, tall[5] + 1}));
}

TEST(AddTest, AddsAlphaTimesX) {
  const Floats x = Normal(101, 1);
  Floats y = Normal(101, 2);
  Doubles want = Double(y);
  for (size_t i = 0; i < 101; ++i) want[i] += -0.5 * x[i];
  Add({.count = 101, .alpha = -0.5f, .x = x.data(), .y = y.data()}, nullptr);
  ExpectWithin(y, want, 2 * kUnit * 10, "y");
}

TEST(SumTest, AddsInDouble) {
  Floats values(1000003, 1.0f);
  values[0] = 0x1p-30f;
  double sum = 5.0;
  Sum({.count = 1000003, .values = values.data(), .sum = &sum}, nullptr);
  EXPECT_EQ(sum, 1000002.0 + 0x1p-30);
  Sum({.count = 3, .values = values.data(), .sum = &sum, .accumulate = true}, nullptr);
  EXPECT_EQ(sum, 1000004.0 + 0x1p-29);
  Sum({.count = 0, .values = nullptr, .sum = &sum}, nullptr);
  EXPECT_EQ(sum, 0.0);
}

TEST(PhiloxTest, EqualsTheGeneratorOfTheController) {
  for (uint32_t i = 0; i < 100; ++i) {
    const PhiloxWords words = Philox({{i, i * 77u, ~i, 5u}}, 0xdeadbeefu * i, 42u);
    const auto want = Philox4x32({i, i * 77u, ~i, 5u}, {0xdeadbeefu * i, 42u});
    for (size_t w = 0; w < 4; ++w) EXPECT_EQ(words.word[w], want[w]);
  }
}

struct DropProblem {
  int64_t rows = 70, columns = 131;
  uint32_t step = 3;
  std::vector<uint32_t> bins, positions;
  DropProblem() {
    for (uint32_t t = 0; t < 70; ++t) {
      bins.push_back(100 + t / 32);
      positions.push_back(t % 32);
    }
  }
  DropoutArgs Args(const Floats& x, Floats* y, float rate) const {
    return {.spec = {.columns = columns, .rate = rate},
            .mask = {.key = {7, 9},
                     .site = 12,
                     .step = &step,
                     .bins = bins.data(),
                     .positions = positions.data()},
            .rows = rows,
            .x = x.data(),
            .y = y->data()};
  }
};

TEST(DropoutTest, DropsWhatPhiloxSays) {
  const DropProblem p;
  const float rate = 0.3f;
  const Floats x = Normal(p.rows * p.columns, 1);
  Floats y(x.size()), again = x, added = x;
  DropoutApply(p.Args(x, &y, rate), nullptr);
  DropoutApply(p.Args(again, &again, rate), nullptr);
  EXPECT_TRUE(SameBits(y, again)) << "in place";
  DropoutArgs accumulating = p.Args(x, &added, rate);
  accumulating.accumulate = true;
  DropoutApply(accumulating, nullptr);
  int kept = 0;
  for (uint32_t t = 0; t < 70; ++t) {
    for (uint32_t c = 0; c < 131; ++c) {
      const auto words = Philox4x32({3, (12u << 16) | (c / 4), p.bins[t], p.positions[t]}, {7, 9});
      const bool keep = PhiloxUniform(words[c % 4]) >= rate;
      const size_t i = t * 131 + c;
      ASSERT_EQ(y[i], keep ? x[i] * (1.0f / (1.0f - rate)) : 0.0f);
      ASSERT_NEAR(added[i], x[i] + y[i], 2 * kUnit * 15);
      kept += keep ? 1 : 0;
    }
  }
  // 9,170 draws: standard deviation of the kept fraction 0.0048.
  EXPECT_NEAR(kept / 9170.0, 0.7, 5 * 0.0048);
}

// Invariant kernels-7.
TEST(DropoutTest, MaskOfATokenDoesNotDependOnTheBatchAroundIt) {
  const DropProblem p;
  const Floats x = Normal(p.rows * p.columns, 1);
  Floats whole(x.size()), part(x.size());
  DropoutApply(p.Args(x, &whole, 0.5f), nullptr);
  DropoutArgs tail = p.Args(x, &part, 0.5f);
  tail.rows = 30;
  tail.mask.bins += 40;
  tail.mask.positions += 40;
  tail.x = x.data() + 40 * p.columns;
  DropoutApply(tail, nullptr);
  EXPECT_TRUE(
      std::equal(part.begin(), part.begin() + 30 * p.columns, whole.begin() + 40 * p.columns));
}

TEST(DropoutTest, RateZeroIsTheIdentity) {
  DropProblem p;
  const Floats x = Normal(p.rows * p.columns, 1);
  Floats y(x.size());
  DropoutArgs args = p.Args(x, &y, 0.0f);
  args.mask = {};
  DropoutApply(args, nullptr);
  EXPECT_TRUE(SameBits(x, y));
  EXPECT_FALSE(DropoutSupports({.columns = 4, .rate = 1.0f}));
  EXPECT_FALSE(DropoutSupports({.columns = 262145, .rate = 0.1f}));
}

}  // namespace
}  // namespace coxswain::kernels
