#include <limits>
#include <utility>

#include "kernels/tensors/rows.h"
#include "tests/kernels/testing.h"

namespace coxswain::kernels {

namespace embedding_test {
namespace {

// What forward and backward make of the ids; dweight is added to `before`.
struct Passes {
  Floats out, dweight;
};

Passes RunBoth(const EmbeddingSpec& spec, const std::vector<int32_t>& ids, const Floats& weight,
               const Floats& dout, const Floats& before) {
  Passes passes{Floats(dout.size()), before};
  const auto tokens = static_cast<int64_t>(ids.size());
  EmbeddingForward({.spec = spec,
                    .tokens = tokens,
                    .ids = ids.data(),
                    .weight = weight.data(),
                    .out = passes.out.data()},
                   nullptr);
  EmbeddingBackward({.spec = spec,
                     .tokens = tokens,
                     .ids = ids.data(),
                     .dout = dout.data(),
                     .dweight = passes.dweight.data(),
                     .workspace = {}},
                    nullptr);
  return passes;
}

TEST(EmbeddingTest, GathersRowsAndAddsGradientsOfRepeatedIds) {
  const EmbeddingSpec spec{.vocab = 11, .hidden = 7};
  const std::vector<int32_t> ids = {3, 0, 3, 10, 3};
  const Floats weight = Normal(77, 1), dout = Normal(35, 2), before = Normal(77, 3);
  const Passes passes = RunBoth(spec, ids, weight, dout, before);
  Doubles want = Double(before);
  for (size_t t = 0; t < 5; ++t) {
    for (size_t j = 0; j < 7; ++j) {
      EXPECT_EQ(passes.out[t * 7 + j], weight[Size(ids[t]) * 7 + j]);
      want[Size(ids[t]) * 7 + j] += dout[t * 7 + j];
    }
  }
  ExpectWithin(passes.dweight, want, 3 * kUnit * 20, "dweight");  // at most 3 additions below 20
}

// A power of two scales without rounding.
TEST(EmbeddingTest, ScalesRowsAndTheirGradients) {
  const EmbeddingSpec plain{.vocab = 11, .hidden = 7};
  EmbeddingSpec scaled = plain;
  scaled.scale = 4.0f;
  const std::vector<int32_t> ids = {3, 0, 3, 10, 3};
  const Floats weight = Normal(77, 1), dout = Normal(35, 2), zeros(77, 0.0f);
  Passes want = RunBoth(plain, ids, weight, dout, zeros);
  for (Floats* values : {&want.out, &want.dweight}) {
    for (float& value : *values) value *= 4.0f;
  }
  const Passes got = RunBoth(scaled, ids, weight, dout, zeros);
  EXPECT_TRUE(SameBits(got.out, want.out));
  EXPECT_TRUE(SameBits(got.dweight, want.dweight));
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

}  // namespace
}  // namespace embedding_test

namespace row_gather_test {
namespace {

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

}  // namespace
}  // namespace row_gather_test

}  // namespace coxswain::kernels
