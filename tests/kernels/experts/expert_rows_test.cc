#include <limits>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/experts/expert_rows.h"
#include "tests/kernels/testing.h"
#include "tests/reference/experts.h"

namespace coxswain::kernels {

namespace sort_by_expert_test {
namespace {

using Ints = std::vector<int32_t>;

struct Sorted {
  Ints order, places, offsets, counts;
};

Sorted Sort(int64_t experts, int64_t chosen, const Ints& ids) {
  const SortByExpertSpec spec{.experts = experts, .chosen = chosen};
  const auto tokens = static_cast<int64_t>(ids.size()) / chosen;
  Sorted out{Ints(ids.size(), -7), Ints(ids.size(), -7), Ints(Size(experts + 1), -7),
             Ints(Size(experts), -7)};
  Scratch scratch(SortByExpertWorkspaceBytes(spec, tokens));
  ExpectNoAllocation none;
  SortByExpert({.spec = spec,
                .tokens = tokens,
                .ids = ids.data(),
                .order = out.order.data(),
                .places = out.places.data(),
                .offsets = out.offsets.data(),
                .counts = out.counts.data(),
                .workspace = scratch.view()},
               nullptr);
  return out;
}

// What stands in the contract, by a search for each expert.
void Check(int64_t experts, int64_t chosen, const Ints& ids) {
  const Sorted got = Sort(experts, chosen, ids);
  Ints order;
  for (int32_t e = 0; e < experts; ++e) {
    EXPECT_EQ(got.offsets[Size(e)], static_cast<int32_t>(order.size()));
    const size_t before = order.size();
    for (size_t p = 0; p < ids.size(); ++p) {
      if (ids[p] == e) order.push_back(static_cast<int32_t>(p));
    }
    EXPECT_EQ(got.counts[Size(e)], static_cast<int32_t>(order.size() - before));
  }
  EXPECT_EQ(got.offsets.back(), static_cast<int32_t>(order.size()));
  Ints places(ids.size(), -1);
  for (size_t i = 0; i < order.size(); ++i) places[Size(order[i])] = static_cast<int32_t>(i);
  order.resize(ids.size(), -1);
  EXPECT_EQ(got.order, order);
  EXPECT_EQ(got.places, places);
}

TEST(SortByExpertTest, SortsPairsStably) {
  Check(3, 2, {2, 0, 0, 1, 2, 0});
  Check(3, 2, {2, 0, -1, -1, 2, 1});
  Check(1, 1, {0});
  Check(1, 1, {-1});
  Check(5, 1, {});
  Check(4, 3, Ints(30, 2));  // all to one expert
  std::mt19937 random(1);
  for (const int64_t experts : {1, 7, 128}) {
    Ints ids(Size(8 * 53));
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % Size(experts + 1)) - 1;
    Check(experts, 8, ids);
  }
}

TEST(SortByExpertTest, RefusesAnExpertThatIsNotThere) {
  EXPECT_THROW(Sort(2, 1, {2}), std::invalid_argument);
  EXPECT_THROW(Sort(2, 1, {-2}), std::invalid_argument);
}

}  // namespace
}  // namespace sort_by_expert_test

namespace dispatch_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Two tokens of two slots; pair 1 is left out.
const std::vector<int32_t> kOrder = {2, 0, 3, -1}, kPlaces = {1, -1, 0, 2};

TEST(DispatchTest, CopiesRowsAndZerosWhatIsBehindThem) {
  const DispatchSpec spec{.hidden = 3, .chosen = 2};
  const Floats x = {1, 2, 3, 4, 5, 6}, want = {4, 5, 6, 1, 2, 3, 4, 5, 6, 0, 0, 0};
  Floats rows(12, kNan);
  ExpectNoAllocation none;
  DispatchForward({.spec = spec,
                   .tokens = 2,
                   .order = kOrder.data(),
                   .places = kPlaces.data(),
                   .x = x.data(),
                   .rows = rows.data()},
                  nullptr);
  EXPECT_TRUE(SameBits(rows, want));
}

// The row behind the last pair is NaN: it is not read.
TEST(DispatchTest, BackwardAddsTheRowsOfAToken) {
  const DispatchSpec spec{.hidden = 3, .chosen = 2};
  const Floats drows = {1, 2, 3, 10, 20, 30, 100, 200, 300, kNan, kNan, kNan};
  const Floats want = {10, 20, 30, 101, 202, 303};
  Floats dx(6, kNan);
  ExpectNoAllocation none;
  DispatchBackward(
      {.spec = spec, .tokens = 2, .places = kPlaces.data(), .drows = drows.data(), .dx = dx.data()},
      nullptr);
  EXPECT_TRUE(SameBits(dx, want));
}

// 1 + 2^-24 + 2^-24 is 1 from the left and 1 + 2^-23 from the right.
TEST(DispatchTest, BackwardAddsInTheOrderOfSlots) {
  const float small = 0x1p-24f;
  const Floats drows = {small, small, 1.0f};
  const std::vector<int32_t> rising = {2, 1, 0}, falling = {0, 1, 2};
  const DispatchSpec spec{.hidden = 1, .chosen = 3};
  float dx = kNan;
  DispatchBackward(
      {.spec = spec, .tokens = 1, .places = rising.data(), .drows = drows.data(), .dx = &dx},
      nullptr);
  EXPECT_EQ(dx, 1.0f);
  DispatchBackward(
      {.spec = spec, .tokens = 1, .places = falling.data(), .drows = drows.data(), .dx = &dx},
      nullptr);
  EXPECT_EQ(dx, 1.0f + 0x1p-23f);
}

TEST(DispatchTest, RefusesAPlaceThatIsNotThere) {
  const std::vector<int32_t> wrong = {4, 0, 1, 2};
  const DispatchSpec spec{.hidden = 1, .chosen = 2};
  Floats x(2), rows(4);
  for (const auto& [order, places] : {std::pair(wrong, kPlaces), {kOrder, wrong}}) {
    EXPECT_THROW(DispatchForward({.spec = spec,
                                  .tokens = 2,
                                  .order = order.data(),
                                  .places = places.data(),
                                  .x = x.data(),
                                  .rows = rows.data()},
                                 nullptr),
                 std::invalid_argument);
  }
  EXPECT_THROW(
      DispatchBackward(
          {.spec = spec, .tokens = 2, .places = wrong.data(), .drows = rows.data(), .dx = x.data()},
          nullptr),
      std::invalid_argument);
  EXPECT_FALSE(DispatchSupports({.dtype = DType::kBFloat16, .hidden = 1, .chosen = 1}));
}

}  // namespace
}  // namespace dispatch_test

namespace combine_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Two tokens of two slots; pair 1 is left out, so its weight and the last row are NaN.
const std::vector<int32_t> kOrder = {2, 0, 3, -1}, kPlaces = {1, -1, 0, 2};
const Floats kWeights = {2.0f, kNan, 0.5f, -1.0f};
const Floats kRows = {2, 4, 6, 1, 2, 3, 5, 6, 7, kNan, kNan, kNan};
constexpr CombineSpec kSpec{.hidden = 3, .chosen = 2};

TEST(CombineTest, AddsTheRowsOfATokenByWeight) {
  const Floats want = {2, 4, 6, -4, -4, -4};
  Floats y(6, kNan);
  ExpectNoAllocation none;
  CombineForward({.spec = kSpec,
                  .tokens = 2,
                  .places = kPlaces.data(),
                  .weights = kWeights.data(),
                  .rows = kRows.data(),
                  .y = y.data()},
                 nullptr);
  EXPECT_TRUE(SameBits(y, want));
}

TEST(CombineTest, AddsInTheOrderOfSlots) {
  const float small = 0x1p-24f;
  const Floats rows = {small, small, 1.0f}, weights = {1, 1, 1};
  const std::vector<int32_t> places = {2, 1, 0};
  float y = kNan;
  CombineForward({.spec = {.hidden = 1, .chosen = 3},
                  .tokens = 1,
                  .places = places.data(),
                  .weights = weights.data(),
                  .rows = rows.data(),
                  .y = &y},
                 nullptr);
  EXPECT_EQ(y, 1.0f);  // 1 + 2^-23 from the other end
}

TEST(CombineTest, BackwardInPlaceOfTheRowsAndBeside) {
  const Floats dy = {1, 1, 1, 1, 0, 2};
  Floats beside(12, kNan), in_place = kRows, dweights(4, kNan);
  CombineBackwardArgs args{.spec = kSpec,
                           .tokens = 2,
                           .order = kOrder.data(),
                           .places = kPlaces.data(),
                           .weights = kWeights.data(),
                           .rows = kRows.data(),
                           .dy = dy.data(),
                           .drows = beside.data(),
                           .dweights = dweights.data()};
  CombineBackward(args, nullptr);
  const Floats want = {0.5f, 0, 1, 2, 2, 2, -1, 0, -2, 0, 0, 0}, want_weights = {6, 0, 14, 19};
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(beside[i], want[i]) << i;
  EXPECT_EQ(dweights, want_weights);
  args.rows = args.drows = in_place.data();
  dweights.assign(4, kNan);
  CombineBackward(args, nullptr);
  EXPECT_TRUE(SameBits(in_place, beside));
  EXPECT_EQ(dweights, want_weights);
  const Floats kept = dweights;
  args.dweights = nullptr;
  CombineBackward(args, nullptr);
  args.drows = nullptr;
  CombineBackward(args, nullptr);
  EXPECT_EQ(dweights, kept);
}

TEST(CombineTest, RefusesAPlaceThatIsNotThere) {
  const std::vector<int32_t> wrong = {1, 4, 0, 2};
  Floats y(6);
  EXPECT_THROW(CombineForward({.spec = kSpec,
                               .tokens = 2,
                               .places = wrong.data(),
                               .weights = kWeights.data(),
                               .rows = kRows.data(),
                               .y = y.data()},
                              nullptr),
               std::invalid_argument);
  EXPECT_FALSE(CombineSupports({.dtype = DType::kBFloat16, .hidden = 1, .chosen = 1}));
}

}  // namespace
}  // namespace combine_test

namespace sigmoid_gate_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The gate is within 6 u of itself, as in SwiGLU; then a product, and a sum of two. The gradient of
// a logit sums n products, and 1 - s is off by 6 u.
TEST(SigmoidGateTest, MatchesReferenceForEveryTailAndLargeLogits) {
  for (const int64_t n : {1, 2, 3, 7, 15, 16, 17, 33, 97}) {
    const int64_t rows = 5;
    Floats logits = Normal(rows, 1, 3.0f);
    logits[0] = 90.0f;
    logits[1] = -90.0f;
    const Floats x = Normal(rows * n, 2), dy = Normal(rows * n, 3), before = Normal(rows * n, 4);
    Floats y = before, dx(Size(rows * n), kNan), dlogits(Size(rows), kNan);
    {
      ExpectNoAllocation none;
      SigmoidGateForward({.spec = {.columns = n},
                          .rows = rows,
                          .logits = logits.data(),
                          .x = x.data(),
                          .y = y.data()},
                         nullptr);
      SigmoidGateBackward({.spec = {.columns = n},
                           .rows = rows,
                           .logits = logits.data(),
                           .x = x.data(),
                           .dy = dy.data(),
                           .dx = dx.data(),
                           .dlogits = dlogits.data()},
                          nullptr);
    }
    for (int64_t t = 0; t < rows; ++t) {
      const Doubles row(x.begin() + t * n, x.begin() + (t + 1) * n);
      const Doubles drow(dy.begin() + t * n, dy.begin() + (t + 1) * n);
      const double logit = logits[Size(t)];
      const Doubles want = reference::SigmoidGate(logit, row);
      const auto gradient = reference::SigmoidGateBackward(logit, row, drow);
      double size = 0;
      for (int64_t j = 0; j < n; ++j) {
        const size_t at = Size(t * n + j), in_row = Size(j);
        ASSERT_NEAR(y[at], before[at] + want[in_row],
                    9 * kUnit * (std::abs(row[in_row]) + std::abs(before[at])));
        ASSERT_NEAR(dx[at], gradient.x[in_row], 8 * kUnit * std::abs(drow[in_row]));
        size += std::abs(drow[in_row] * row[in_row]);
      }
      ASSERT_NEAR(dlogits[Size(t)], gradient.logit, static_cast<double>(n + 14) * kUnit * size);
    }
  }
}

TEST(SigmoidGateTest, BackwardInPlaceAndWhatIsWantedAlone) {
  const int64_t n = 33, rows = 4;
  const Floats x = Normal(rows * n, 1), dy = Normal(rows * n, 2), logits = Normal(rows, 3);
  Floats dx(Size(rows * n), kNan), dlogits(Size(rows), kNan), in_place = x, gate = logits;
  SigmoidGateBackwardArgs args{.spec = {.columns = n},
                               .rows = rows,
                               .logits = logits.data(),
                               .x = x.data(),
                               .dy = dy.data(),
                               .dx = dx.data()};
  SigmoidGateBackward(args, nullptr);
  EXPECT_TRUE(std::isnan(dlogits[0]));
  args.dx = nullptr;
  args.dlogits = dlogits.data();
  SigmoidGateBackward(args, nullptr);
  args.x = args.dx = in_place.data();
  args.logits = args.dlogits = gate.data();
  SigmoidGateBackward(args, nullptr);
  EXPECT_TRUE(SameBits(in_place, dx) && SameBits(gate, dlogits));
}

// Invariant kernels-6.
TEST(SigmoidGateTest, NanReachesItsRowAlone) {
  const int64_t n = 4;
  Floats y(8, 0.0f);
  const Floats x(8, 1.0f), logits = {kNan, 0.0f};
  SigmoidGateForward(
      {.spec = {.columns = n}, .rows = 2, .logits = logits.data(), .x = x.data(), .y = y.data()},
      nullptr);
  for (size_t j = 0; j < 8; ++j) EXPECT_EQ(std::isnan(y[j]), j < 4);
  EXPECT_EQ(y[7], 0.5f);
  EXPECT_FALSE(SigmoidGateSupports({.dtype = DType::kBFloat16, .columns = n}));
  EXPECT_FALSE(SigmoidGateSupports({.columns = 0}));
}

}  // namespace
}  // namespace sigmoid_gate_test

}  // namespace coxswain::kernels
