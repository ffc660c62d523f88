#include "kernels/experts/router_loss.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "kernels/experts/route.h"
#include "tests/kernels/cuda/expert_pairs.h"
#include "tests/kernels/cuda/gpu_testing.h"
#include "tests/reference/router_loss.h"

namespace coxswain::kernels {
namespace gpu_router_loss_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

void AddLayer(const RouterLossSpec& spec, const Floats& logits, const Ints& ids, bool accumulate,
              const DeviceValues<double>& sums) {
  const auto tokens = static_cast<int64_t>(ids.size()) / spec.chosen;
  const DeviceTensor device_logits(DType::kFloat32, logits);
  const DeviceValues<int32_t> device_ids(ids);
  const Scratch scratch(RouterLossSumsWorkspaceBytes(spec, tokens));
  RouterLossSums({.spec = spec,
                  .tokens = tokens,
                  .logits = device_logits.floats(),
                  .ids = device_ids.data(),
                  .accumulate = accumulate,
                  .sums = sums.data(),
                  .workspace = scratch.workspace()},
                 TestStream());
  Synchronize(TestStream());
}

// Of one layer; what was in the pool is not read.
Doubles SumsOf(const RouterLossSpec& spec, const Floats& logits, const Ints& ids) {
  const DeviceValues<double> sums(Doubles(Size(RouterLossSumCount(spec)), std::nan("")));
  AddLayer(spec, logits, ids, false, sums);
  return sums.Read();
}

Doubles Losses(const RouterLossSpec& spec, const Doubles& sums) {
  const DeviceValues<double> device_sums(sums), losses(Doubles(2, std::nan("")));
  RouterLoss({.spec = spec, .sums = device_sums.data(), .losses = losses.data()}, TestStream());
  return losses.Read();
}

Floats Gradient(const RouterLossSpec& spec, const Floats& logits, const Ints& ids,
                const Doubles& sums, const Floats& factors, float before) {
  const DeviceTensor device_logits(DType::kFloat32, logits);
  const DeviceTensor dlogits(DType::kFloat32, Floats(logits.size(), before));
  const DeviceValues<int32_t> device_ids(ids);
  const DeviceValues<double> device_sums(sums);
  const DeviceValues<float> device_factors(factors);
  RouterLossGradient({.spec = spec,
                      .tokens = static_cast<int64_t>(ids.size()) / spec.chosen,
                      .logits = device_logits.floats(),
                      .ids = device_ids.data(),
                      .sums = device_sums.data(),
                      .factors = device_factors.data(),
                      .dlogits = dlogits.floats()},
                     TestStream());
  return dlogits.Read();
}

Ints Chosen(const RouterLossSpec& spec, const Floats& logits) {
  const auto tokens = static_cast<int64_t>(logits.size()) / spec.experts;
  const DeviceTensor device_logits(DType::kFloat32, logits);
  const DeviceTensor weights(DType::kFloat32, tokens * spec.chosen);
  const DeviceValues<int32_t> ids(Ints(Size(tokens * spec.chosen), -7));
  RouteForward({.spec = {.experts = spec.experts, .chosen = spec.chosen},
                .tokens = tokens,
                .logits = device_logits.floats(),
                .ids = ids.data(),
                .weights = weights.floats()},
               TestStream());
  return ids.Read();
}

// As tests/kernels/experts/router_loss_test.cc counts: a probability is off by c = 2 (4 + R) + E/16
// + 10 roundings, R the range of the logits; what is summed of it is in double. balance is at most
// E k. lse is off by c u, its square by 2 |lse| c u. A gradient has p, and f p in its mean, of at
// most a E k + 2 b |lse|; what it is added to is rounded once more.
void CheckLosses(const RouterLossSpec& spec, int64_t tokens) {
  SCOPED_TRACE(std::to_string(tokens) + " tokens of " + std::to_string(spec.experts));
  const Floats logits = Normal(tokens * spec.experts, 1, DType::kFloat32, 2.0f);
  const Ints ids = Chosen(spec, logits);
  const Doubles sums = SumsOf(spec, logits, ids), wide = Double(logits);
  const std::vector<int64_t> wide_ids(ids.begin(), ids.end());
  const reference::RouterPool<double> pool{tokens, spec.experts, spec.chosen, wide.data(),
                                           wide_ids.data()};
  const auto want = reference::RouterLoss(pool);
  const Doubles losses = Losses(spec, sums);
  double largest = 0;
  for (const double logit : wide) largest = std::max(largest, std::abs(logit));
  const double experts = static_cast<double>(spec.experts), lse = largest + std::log(experts);
  const double rounding = kUnit(DType::kFloat32);
  const double unit = (2 * (4 + 2 * largest) + experts / 16 + 10) * rounding;
  const double most = experts * static_cast<double>(spec.chosen);
  EXPECT_NEAR(losses[0], want.balance, unit * most);
  EXPECT_NEAR(losses[1], want.z, 2 * lse * unit);
  EXPECT_EQ(sums[Size(2 * spec.experts)], static_cast<double>(tokens));
  Doubles gradient = reference::RouterLossBackward<double>(pool, 0.5, 0.25);
  const double size = 0.5 * most + 2 * 0.25 * lse, rows = static_cast<double>(tokens);
  for (double& value : gradient) value += 1.0;
  const Floats got = Gradient(spec, logits, ids, sums, {0.5f, 0.25f}, 1.0f);
  ExpectWithin(got, gradient, 3 * unit * size / rows + 2 * rounding * (1 + size / rows), "dlogits");
  EXPECT_EQ(SumsOf(spec, logits, ids), sums);
  EXPECT_TRUE(SameBits(Gradient(spec, logits, ids, sums, {0.5f, 0.25f}, 1.0f), got));
}

// Tokens around the warps and tokens of a block, and beyond the most blocks.
TEST(RouterLossGpuTest, MatchesReferenceForEveryTail) {
  for (const int64_t tokens : {1, 2, 13, 31, 33, 100, 4101}) {
    CheckLosses({.experts = 1, .chosen = 1}, tokens);
    CheckLosses({.experts = 5, .chosen = 5}, tokens);
    CheckLosses({.experts = 33, .chosen = 4}, tokens);
    CheckLosses({.experts = 65, .chosen = 40}, tokens);
    CheckLosses({.experts = 128, .chosen = 8}, tokens);
    CheckLosses({.experts = 257, .chosen = 8}, tokens);
  }
  CheckLosses({.experts = 1024, .chosen = 8}, 515);
}

// Layers pool: two calls give one over the rows of both, but for the order of double sums. Padding
// counts nowhere.
TEST(RouterLossGpuTest, PoolsLayersAndLeavesPaddingOut) {
  const RouterLossSpec spec{.experts = 6, .chosen = 2};
  const Floats logits = Normal(10 * 6, 1, DType::kFloat32);
  const Ints ids = Chosen(spec, logits);
  const Doubles whole = SumsOf(spec, logits, ids);
  const Floats first(logits.begin(), logits.begin() + 24);
  Floats second(logits.begin() + 24, logits.end());
  const Ints first_ids(ids.begin(), ids.begin() + 8);
  Ints second_ids(ids.begin() + 8, ids.end());
  second.insert(second.begin(), 6, kNan);
  second_ids.insert(second_ids.begin(), 2, -1);
  const DeviceValues<double> parts(Doubles(14, 5.0));
  AddLayer(spec, first, first_ids, false, parts);
  AddLayer(spec, second, second_ids, true, parts);
  const Doubles pooled = parts.Read();
  for (size_t i = 0; i < 14; ++i) EXPECT_NEAR(pooled[i], whole[i], 20 * 0x1p-53 * whole[i]) << i;
  EXPECT_EQ(whole[12], 10.0);
  const Floats all = Gradient(spec, logits, ids, whole, {1.0f, 1.0f}, 0.0f);
  const Floats behind = Gradient(spec, second, second_ids, whole, {1.0f, 1.0f}, 0.0f);
  EXPECT_TRUE(
      SameBits(Floats(behind.begin() + 6, behind.end()), Floats(all.begin() + 24, all.end())));
  EXPECT_TRUE(SameBits(Floats(behind.begin(), behind.begin() + 6), Floats(6, 0.0f)));
}

TEST(RouterLossGpuTest, BalancedExpertsLoseWhatTheyAreChosen) {
  const RouterLossSpec spec{.experts = 4, .chosen = 2};
  const Doubles losses = Losses(spec, SumsOf(spec, Floats(8, 0.0f), {0, 1, 2, 3}));
  EXPECT_EQ(losses[0], 2.0);
  EXPECT_NEAR(losses[1], std::log(4.0) * std::log(4.0), 1e-15);
}

TEST(RouterLossGpuTest, AddsToTheTotalAndToItsParts) {
  const RouterLossSpec spec{.experts = 4, .chosen = 2};
  const DeviceValues<double> sums(
      SumsOf(spec, Normal(3 * 4, 1, DType::kFloat32), {0, 1, 0, 2, 3, 1}));
  const DeviceValues<double> losses(Doubles(2, 0.0)), parts(Doubles{1.0, 2.0}), total(Doubles{8.0});
  const DeviceValues<float> factors(Floats{0.5f, 0.25f});
  RouterLoss({.spec = spec,
              .sums = sums.data(),
              .losses = losses.data(),
              .factors = factors.data(),
              .total = total.data(),
              .parts = parts.data()},
             TestStream());
  const Doubles each = losses.Read();
  EXPECT_DOUBLE_EQ(parts.Read()[0], 1.0 + 0.5 * each[0]);
  EXPECT_DOUBLE_EQ(parts.Read()[1], 2.0 + 0.25 * each[1]);
  EXPECT_DOUBLE_EQ(total.Read()[0], 8.0 + 0.5 * each[0] + 0.25 * each[1]);
}

TEST(RouterLossGpuTest, PoolOfNoRows) {
  const RouterLossSpec spec{.experts = 2, .chosen = 1};
  const Doubles sums = SumsOf(spec, {kNan, kNan}, {-1});
  EXPECT_EQ(sums, Doubles(6, 0.0));
  EXPECT_EQ(SumsOf(spec, {}, {}), Doubles(6, 0.0));
  EXPECT_EQ(Losses(spec, sums), (Doubles{0.0, 0.0}));
  EXPECT_EQ(Gradient(spec, {kNan, kNan}, {-1}, sums, {1, 1}, 0.5f), (Floats{0.5f, 0.5f}));
}

TEST(RouterLossGpuTest, NanReachesTheLossesAndItsOwnRow) {
  const RouterLossSpec spec{.experts = 3, .chosen = 1};
  const Floats logits = {1, 2, 3, 4, kNan, 6};
  const Doubles sums = SumsOf(spec, logits, {2, 0});
  const Doubles losses = Losses(spec, sums);
  EXPECT_TRUE(std::isnan(losses[0]) && std::isnan(losses[1]));
  const Floats dlogits = Gradient(spec, logits, {2, 0}, sums, {1, 1}, 0.0f);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(std::isnan(dlogits[i]), i >= 3);
}

TEST(RouterLossGpuTest, RefusesWhatItCannotDo) {
  EXPECT_FALSE(RouterLossSupports({.experts = 2, .chosen = 3}));
  EXPECT_FALSE(RouterLossSupports({.experts = kMostExperts + 1, .chosen = 3}));
  const RouterLossSpec spec{.experts = 2, .chosen = 2};
  EXPECT_THROW(RouterLossSums({.spec = spec, .tokens = 1}, TestStream()), std::invalid_argument);
  EXPECT_THROW(RouterLossSums({.spec = spec, .tokens = -1}, TestStream()), std::invalid_argument);
}

}  // namespace
}  // namespace gpu_router_loss_test
}  // namespace coxswain::kernels
