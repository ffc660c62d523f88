// Ranks that share weights of experts compute them again with the bits of what is kept.
#include <gtest/gtest.h>

#include "tests/worker/engine/support/mixture_cases.h"
#include "tests/worker/engine/support/test_ranks.h"

namespace coxswain::engine {
namespace sharded_mixture_test {
namespace {

constexpr int64_t kSteps = 2;

// Every model in full, with adapters of all, and those over NF4.
std::vector<MixtureCase> ShardedCases() {
  std::vector<MixtureCase> cases;
  for (MixtureCase& mixture : MixtureCases()) {
    const std::string& name = mixture.name;
    if (!name.ends_with("Full") && !name.ends_with("OfAll") && !name.ends_with("Nf4")) continue;
    cases.push_back(std::move(mixture));
  }
  return cases;
}

class ShardedMixtureTest : public testing::TestWithParam<MixtureCase> {
 protected:
  static Ranks Train(int32_t shard, const std::string& level) {
    PlanOptions options = GetParam().options;
    options.micro_batch_bins = 1;
    options.shard = shard;
    options.zero = 3;
    options.recompute = level;
    const plan::Plan plan = MakePlan(GetParam().config, options);
    Ranks stats(static_cast<size_t>(shard));
    WithEngines(plan, "", [&](int rank, Engine& engine) {
      for (int64_t step = 0; step < kSteps; ++step) {
        TrainStep train = MakeStep(step, MixtureBins(step));
        train.bins = PartOf(plan, train.bins, rank);
        const auto result = engine.Train(train);
        ASSERT_TRUE(result.ok()) << result.status();
        stats[static_cast<size_t>(rank)].push_back(*result);
      }
    });
    return stats;
  }
};

TEST_P(ShardedMixtureTest, LevelsGiveTheBitsOfWhatIsKeptUnderZero3) {
  for (const int32_t shard : {2, 4}) {
    const Ranks kept = Train(shard, "none");
    for (const std::string& level : LevelsOfMixtures()) {
      const Ranks again = Train(shard, level);
      for (size_t rank = 0; rank < kept.size(); ++rank) {
        ASSERT_EQ(again[rank].size(), kept[rank].size()) << shard << " ranks, " << level;
        ASSERT_EQ(again[rank].size(), static_cast<size_t>(kSteps));
        for (size_t step = 0; step < again[rank].size(); ++step) {
          const StepStats &one = kept[rank][step], &other = again[rank][step];
          EXPECT_EQ(other.global_loss_sum, one.global_loss_sum) << shard << " ranks, " << level;
          EXPECT_EQ(other.grad_norm, one.grad_norm) << shard << " ranks, " << level;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ShardedMixtureTest, testing::ValuesIn(ShardedCases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace sharded_mixture_test
}  // namespace coxswain::engine
