#include "kernels/experts/router_loss.h"

#include <limits>
#include <stdexcept>
#include <vector>

#include "kernels/experts/route.h"
#include "tests/kernels/testing.h"
#include "tests/reference/router_loss.h"

namespace coxswain::kernels {
namespace router_loss_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
using Ints = std::vector<int32_t>;

void AddLayer(const RouterLossSpec& spec, const Floats& logits, const Ints& ids, bool accumulate,
              Doubles* sums) {
  const auto tokens = static_cast<int64_t>(ids.size()) / spec.chosen;
  Scratch scratch(RouterLossSumsWorkspaceBytes(spec, tokens));
  ExpectNoAllocation none;
  RouterLossSums({.spec = spec,
                  .tokens = tokens,
                  .logits = logits.data(),
                  .ids = ids.data(),
                  .accumulate = accumulate,
                  .sums = sums->data(),
                  .workspace = scratch.view()},
                 nullptr);
}

Doubles Losses(const RouterLossSpec& spec, const Doubles& sums) {
  Doubles losses(2, std::nan(""));
  RouterLoss({.spec = spec, .sums = sums.data(), .losses = losses.data()}, nullptr);
  return losses;
}

Floats Gradient(const RouterLossSpec& spec, const Floats& logits, const Ints& ids,
                const Doubles& sums, const Floats& factors, float before) {
  Floats dlogits(logits.size(), before);
  ExpectNoAllocation none;
  RouterLossGradient({.spec = spec,
                      .tokens = static_cast<int64_t>(ids.size()) / spec.chosen,
                      .logits = logits.data(),
                      .ids = ids.data(),
                      .sums = sums.data(),
                      .factors = factors.data(),
                      .dlogits = dlogits.data()},
                     nullptr);
  return dlogits;
}

Ints Chosen(const RouterLossSpec& spec, const Floats& logits) {
  const auto tokens = static_cast<int64_t>(logits.size()) / spec.experts;
  Ints ids(Size(tokens * spec.chosen));
  Floats weights(ids.size());
  RouteForward({.spec = {.experts = spec.experts, .chosen = spec.chosen},
                .tokens = tokens,
                .logits = logits.data(),
                .ids = ids.data(),
                .weights = weights.data()},
               nullptr);
  return ids;
}

// A probability is off by c = 2 (4 + R) + E/16 + 10 roundings, R the range of the logits, as in
// route_test.cc; what is summed of it is in double. balance is at most E k. lse is off by c u, its
// square by 2 |lse| c u. A gradient has p, and f p in its mean, of at most a E k + 2 b |lse|; what
// it is added to is rounded once more.
void Check(const RouterLossSpec& spec, int64_t tokens) {
  const Floats logits = Normal(tokens * spec.experts, 1, 2.0f), factors = {0.5f, 0.25f};
  const Ints ids = Chosen(spec, logits);
  Doubles sums(Size(RouterLossSumCount(spec)), std::nan(""));
  AddLayer(spec, logits, ids, false, &sums);
  const Doubles wide = Double(logits);
  const std::vector<int64_t> wide_ids(ids.begin(), ids.end());
  const reference::RouterPool<double> pool{tokens, spec.experts, spec.chosen, wide.data(),
                                           wide_ids.data()};
  const auto want = reference::RouterLoss(pool);
  const Doubles losses = Losses(spec, sums);
  const double largest = MaxAbs(wide), experts = static_cast<double>(spec.experts);
  const double lse = largest + std::log(experts);
  const double unit = (2 * (4 + 2 * largest) + experts / 16 + 10) * kUnit;
  const double most = experts * static_cast<double>(spec.chosen);
  EXPECT_NEAR(losses[0], want.balance, unit * most);
  EXPECT_NEAR(losses[1], want.z, 2 * lse * unit);
  Doubles gradient = reference::RouterLossBackward<double>(pool, 0.5, 0.25);
  const double size = 0.5 * most + 2 * 0.25 * lse;
  for (double& value : gradient) value += 1.0;
  const auto rows = static_cast<double>(tokens);
  ExpectWithin(Gradient(spec, logits, ids, sums, factors, 1.0f), gradient,
               3 * unit * size / rows + 2 * kUnit * (1 + size / rows), "dlogits");
}

TEST(RouterLossTest, MatchesReferenceForOddSizes) {
  for (const int64_t tokens : {1, 2, 13, 100}) {
    Check({.experts = 1, .chosen = 1}, tokens);
    Check({.experts = 5, .chosen = 5}, tokens);
    Check({.experts = 8, .chosen = 2}, tokens);
    Check({.experts = 33, .chosen = 4}, tokens);
    Check({.experts = 257, .chosen = 8}, tokens);
  }
}

// Layers pool: two calls have the bits of one over the rows of both. Padding counts nowhere.
TEST(RouterLossTest, PoolsLayersAndLeavesPaddingOut) {
  const RouterLossSpec spec{.experts = 6, .chosen = 2};
  Floats logits = Normal(10 * 6, 1);
  Ints ids = Chosen(spec, logits);
  Doubles whole(14), parts(14, 5.0), losses(2);
  AddLayer(spec, logits, ids, false, &whole);
  const Floats first(logits.begin(), logits.begin() + 24);
  Floats second(logits.begin() + 24, logits.end());
  const Ints first_ids(ids.begin(), ids.begin() + 8);
  Ints second_ids(ids.begin() + 8, ids.end());
  second.insert(second.begin(), 6, kNan);
  second_ids.insert(second_ids.begin(), 2, -1);
  AddLayer(spec, first, first_ids, false, &parts);
  AddLayer(spec, second, second_ids, true, &parts);
  EXPECT_EQ(parts, whole);
  EXPECT_EQ(whole[12], 10.0);
  const Floats factors = {1.0f, 1.0f};
  const Floats all = Gradient(spec, logits, ids, whole, factors, 0.0f);
  const Floats behind = Gradient(spec, second, second_ids, whole, factors, 0.0f);
  EXPECT_TRUE(
      SameBits(Floats(behind.begin() + 6, behind.end()), Floats(all.begin() + 24, all.end())));
  EXPECT_TRUE(SameBits(Floats(behind.begin(), behind.begin() + 6), Floats(6, 0.0f)));
}

// Invariant kernels-3.
TEST(RouterLossTest, SumsDoNotDependOnTheThreads) {
  const RouterLossSpec spec{.experts = 257, .chosen = 8};
  const Floats logits = Normal(509 * 257, 1);
  const Ints ids = Chosen(spec, logits);
  Doubles one(Size(RouterLossSumCount(spec))), three(one);
  const int before = NumThreads();
  SetNumThreads(1);
  AddLayer(spec, logits, ids, false, &one);
  SetNumThreads(3);
  AddLayer(spec, logits, ids, false, &three);
  SetNumThreads(before);
  EXPECT_EQ(three, one);
}

TEST(RouterLossTest, BalancedExpertsLoseWhatTheyAreChosen) {
  const RouterLossSpec spec{.experts = 4, .chosen = 2};
  Doubles sums(10);
  AddLayer(spec, Floats(8, 0.0f), {0, 1, 2, 3}, false, &sums);
  EXPECT_EQ(Losses(spec, sums)[0], 2.0);
  EXPECT_NEAR(Losses(spec, sums)[1], std::log(4.0) * std::log(4.0), 1e-15);
}

// What the loss of the step gets is there in parts too.
TEST(RouterLossTest, AddsToTheTotalAndToItsParts) {
  const RouterLossSpec spec{.experts = 4, .chosen = 2};
  Doubles sums(10), losses(2), parts = {1.0, 2.0};
  AddLayer(spec, Normal(3 * 4, 1), {0, 1, 0, 2, 3, 1}, false, &sums);
  const Floats factors = {0.5f, 0.25f};
  double total = 8.0;
  RouterLoss({.spec = spec,
              .sums = sums.data(),
              .losses = losses.data(),
              .factors = factors.data(),
              .total = &total,
              .parts = parts.data()},
             nullptr);
  EXPECT_DOUBLE_EQ(parts[0], 1.0 + 0.5 * losses[0]);
  EXPECT_DOUBLE_EQ(parts[1], 2.0 + 0.25 * losses[1]);
  EXPECT_DOUBLE_EQ(total, 8.0 + 0.5 * losses[0] + 0.25 * losses[1]);
}

TEST(RouterLossTest, PoolOfNoRows) {
  const RouterLossSpec spec{.experts = 2, .chosen = 1};
  Doubles sums(6, 3.0);
  AddLayer(spec, {kNan, kNan}, {-1}, false, &sums);
  EXPECT_EQ(Losses(spec, sums), (Doubles{0.0, 0.0}));
  EXPECT_EQ(Gradient(spec, {kNan, kNan}, {-1}, sums, {1, 1}, 0.5f), (Floats{0.5f, 0.5f}));
}

TEST(RouterLossTest, NanReachesTheLossesAndItsOwnRow) {
  const RouterLossSpec spec{.experts = 3, .chosen = 1};
  const Floats logits = {1, 2, 3, 4, kNan, 6};
  Doubles sums(8);
  AddLayer(spec, logits, {2, 0}, false, &sums);
  EXPECT_TRUE(std::isnan(Losses(spec, sums)[0]) && std::isnan(Losses(spec, sums)[1]));
  const Floats dlogits = Gradient(spec, logits, {2, 0}, sums, {1, 1}, 0.0f);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(std::isnan(dlogits[i]), i >= 3);
}

TEST(RouterLossTest, RefusesWhatIsNoRoute) {
  const RouterLossSpec spec{.experts = 2, .chosen = 2};
  Doubles sums(6);
  EXPECT_THROW(AddLayer(spec, {1, 2}, {0, 2}, false, &sums), std::invalid_argument);
  EXPECT_THROW(AddLayer(spec, {1, 2}, {0, -1}, false, &sums), std::invalid_argument);
  EXPECT_FALSE(RouterLossSupports({.experts = 2, .chosen = 3}));
}

}  // namespace
}  // namespace router_loss_test
}  // namespace coxswain::kernels
