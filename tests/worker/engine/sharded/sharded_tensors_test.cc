// W ranks end with the tensors of one rank, its evaluation and its answers. Invariant engine-5.
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/scratch_folder.h"
#include "tests/worker/engine/support/rank_features.h"
#include "tests/worker/engine/support/test_ranks.h"

namespace coxswain::engine {
namespace sharded_tensors_test {
namespace {

constexpr int32_t kRanks = 2;

std::vector<RankRun> TrainAll(const plan::Plan& plan, const std::string& folder) {
  std::vector<RankRun> runs(static_cast<size_t>(plan.world_size()));
  WithEngines(plan, "", [&](int rank, Engine& engine) {
    runs[static_cast<size_t>(rank)] = TrainFeature(plan, rank, kRanks, engine, folder);
  });
  return runs;
}

TEST(ShardedTensorsTest, RanksEndAsOneDoes) {
  for (const RankFeature& feature : RankFeatures()) {
    SCOPED_TRACE(feature.name);
    const support::ScratchFolder many, one;
    const std::vector<RankRun> of_many = TrainAll(FeaturePlan(feature, kRanks), many.path());
    const std::vector<RankRun> of_one = TrainAll(FeaturePlan(feature, 1), one.path());
    double held_back = 0;
    for (const RankRun& run : of_many) {
      held_back += run.held_back_loss;
      EXPECT_EQ(run.answers, of_one[0].answers);
    }
    EXPECT_NEAR(held_back / of_one[0].held_back_loss, 1.0, feature.tolerance);
    ExpectTensorsNear(many.path(), one.path(), feature.tolerance);
  }
}

}  // namespace
}  // namespace sharded_tensors_test
}  // namespace coxswain::engine
