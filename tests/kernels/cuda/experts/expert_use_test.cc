#include "kernels/experts/expert_use.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/kernels/cuda/expert_pairs.h"
#include "tests/kernels/cuda/gpu_testing.h"
#include "tests/reference/experts.h"

namespace coxswain::kernels {
namespace gpu_expert_use_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

void AddUse(const ExpertUseSpec& spec, const Floats& logits, const Ints& ids,
            const DeviceValues<double>& sums) {
  const auto tokens = static_cast<int64_t>(ids.size()) / spec.chosen;
  const DeviceTensor device_logits(DType::kFloat32, logits);
  const DeviceValues<int32_t> device_ids(ids), counts(SortedPairs(spec.experts, ids).counts);
  const Scratch scratch(ExpertUseWorkspaceBytes(spec, tokens));
  ExpertUse({.spec = spec,
             .tokens = tokens,
             .logits = device_logits.floats(),
             .ids = device_ids.data(),
             .counts = counts.data(),
             .sums = sums.data(),
             .workspace = scratch.workspace()},
            TestStream());
  Synchronize(TestStream());
}

Doubles UseOf(const ExpertUseSpec& spec, const Floats& logits, const Ints& ids) {
  const DeviceValues<double> sums(Doubles(Size(ExpertUseCount(spec.experts)), 0.0));
  AddUse(spec, logits, ids, sums);
  return sums.Read();
}

// As tests/kernels/experts/expert_use_test.cc counts: a probability is off by c u, c = 2 (4 + R) +
// E/16 + 10, R the range of the logits; the entropy by at most c u (1 + R + log E).
void CheckUse(const ExpertUseSpec& spec, int64_t tokens) {
  SCOPED_TRACE(std::to_string(tokens) + " tokens of " + std::to_string(spec.experts));
  const Floats logits = Normal(tokens * spec.experts, 1, DType::kFloat32, 2.0f);
  const Ints ids = ExpertIds(tokens * spec.chosen, spec.experts, 3, false);
  const Doubles sums = UseOf(spec, logits, ids);
  const bool sigmoid = spec.score == RouterScore::kSigmoid;
  double want = 0, largest = 0;
  for (int64_t t = 0; t < tokens; ++t) {
    const auto row = logits.begin() + t * spec.experts;
    want += reference::RouterEntropy<double>({row, row + spec.experts}, sigmoid);
  }
  for (const float logit : logits) largest = std::max(largest, std::abs(double{logit}));
  const double experts = static_cast<double>(spec.experts), rows = static_cast<double>(tokens);
  const double unit = (2 * (4 + 2 * largest) + experts / 16 + 10) * kUnit(DType::kFloat32);
  EXPECT_EQ(sums[Size(spec.experts)], rows);
  EXPECT_NEAR(sums[Size(spec.experts + 1)], want,
              rows * unit * (1 + 2 * largest + std::log(experts)));
  for (int64_t e = 0; e < spec.experts; ++e) {
    EXPECT_EQ(sums[Size(e)], static_cast<double>(std::count(ids.begin(), ids.end(), e))) << e;
  }
  EXPECT_EQ(UseOf(spec, logits, ids), sums);
}

// Tokens around the warps and tokens of a block, and beyond the most blocks.
TEST(ExpertUseGpuTest, MatchesReferenceForEveryTail) {
  for (const RouterScore score : {RouterScore::kSoftmax, RouterScore::kSigmoid}) {
    for (const int64_t tokens : {1, 2, 13, 31, 33, 100, 8209}) {
      CheckUse({.experts = 1, .chosen = 1, .score = score}, tokens);
      CheckUse({.experts = 5, .chosen = 5, .score = score}, tokens);
      CheckUse({.experts = 33, .chosen = 4, .score = score}, tokens);
      CheckUse({.experts = 128, .chosen = 8, .score = score}, tokens);
      CheckUse({.experts = 257, .chosen = 8, .score = score}, tokens);
    }
    CheckUse({.experts = 1024, .chosen = 8, .score = score}, 515);
  }
}

TEST(ExpertUseGpuTest, CallsAddUpAndPaddingIsLeftOut) {
  const ExpertUseSpec spec{.experts = 6, .chosen = 2};
  const Floats logits = Normal(10 * 6, 1, DType::kFloat32);
  const Ints ids = ExpertIds(20, 6, 5, false);
  const Doubles whole = UseOf(spec, logits, ids);
  const DeviceValues<double> sums(Doubles(8, 0.0));
  AddUse(spec, {logits.begin(), logits.begin() + 24}, {ids.begin(), ids.begin() + 8}, sums);
  Floats second(logits.begin() + 24, logits.end());
  Ints second_ids(ids.begin() + 8, ids.end());
  second.insert(second.begin(), 6, kNan);
  second_ids.insert(second_ids.begin(), 2, -1);
  AddUse(spec, second, second_ids, sums);
  const Doubles parts = sums.Read();
  for (size_t i = 0; i < 7; ++i) EXPECT_EQ(parts[i], whole[i]) << i;
  EXPECT_NEAR(parts[7], whole[7], 20 * 0x1p-53 * whole[7]);
}

TEST(ExpertUseGpuTest, TokensThatAreNotFiniteAddNoEntropy) {
  for (const RouterScore score : {RouterScore::kSoftmax, RouterScore::kSigmoid}) {
    const ExpertUseSpec spec{.experts = 3, .chosen = 2, .score = score};
    const Floats logits = {1, 1, 1, kNan, 0, 0, 0, 0, kNan, 0, kInfinity, 0, 1, 1, 1};
    const Doubles sums = UseOf(spec, logits, {0, 1, 0, 1, 0, 1, 1, 0, 0, 1});
    EXPECT_EQ(Doubles(sums.begin(), sums.begin() + 4), (Doubles{5, 5, 0, 2}));
    EXPECT_NEAR(sums[4], 2 * std::log(3.0), 1e-6);
  }
}

TEST(ExpertUseGpuTest, RefusesWhatItCannotDo) {
  EXPECT_FALSE(ExpertUseSupports({.experts = 2, .chosen = 3}));
  EXPECT_FALSE(ExpertUseSupports({.experts = kMostExperts + 1, .chosen = 3}));
  const ExpertUseSpec spec{.experts = 2, .chosen = 2};
  EXPECT_THROW(ExpertUse({.spec = spec, .tokens = 1}, TestStream()), std::invalid_argument);
}

Floats Moved(const Doubles& counts, const Floats& before, int64_t routers, int64_t stride,
             float rate = 0.25f, int32_t skip = 0) {
  const DeviceTensor bias(DType::kFloat32, before);
  const DeviceValues<double> device_counts(counts);
  const DeviceValues<float> device_rate(Floats{rate});
  const DeviceValues<int32_t> device_skip(Ints{skip});
  BalanceBias({.routers = routers,
               .experts = static_cast<int64_t>(before.size()) / routers,
               .stride = stride,
               .counts = device_counts.data(),
               .rate = device_rate.data(),
               .skip = device_skip.data(),
               .bias = bias.floats()},
              TestStream());
  return bias.Read();
}

TEST(BalanceBiasGpuTest, MovesEachRouterAgainstItsOwnMean) {
  const Doubles counts = {9, 0, 77, 77, 1, 3, 77, 77};
  EXPECT_EQ(Moved(counts, {0, 0, 1, 1}, 2, 4), (Floats{-0.25f, 0.25f, 1.25f, 0.75f}));
  EXPECT_EQ(Moved({3, 3, 4}, {0, 0, 0}, 1, 3), (Floats{0.25f, 0.25f, -0.25f}));
  EXPECT_EQ(Moved({6, 4, 2, 4}, {1, 1, 1, 1}, 1, 4), (Floats{0.75f, 1, 1.25f, 1}));
}

// More experts than threads of a block: one has every token.
TEST(BalanceBiasGpuTest, OneExpertOfManyFallsAlone) {
  Doubles counts(1000, 0.0);
  counts[999] = 123456789.0;
  Floats want(1000, 0.25f);
  want[999] = -0.25f;
  EXPECT_EQ(Moved(counts, Floats(1000, 0.0f), 1, 1002), want);
}

TEST(BalanceBiasGpuTest, NothingMovesWithoutTokensWithoutARateOrInASkippedStep) {
  const Floats before = {0.5f, -0.0f};
  EXPECT_TRUE(SameBits(Moved({0, 0}, before, 1, 2), before));
  EXPECT_TRUE(SameBits(Moved({5, 1}, before, 1, 2, 0.0f), before));
  EXPECT_TRUE(SameBits(Moved({5, 1}, before, 1, 2, 0.25f, 1), before));
}

}  // namespace
}  // namespace gpu_expert_use_test
}  // namespace coxswain::kernels
