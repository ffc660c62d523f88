// What a plan with a policy loss wants of its commands, and that ranks change nothing.
#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_ranks.h"

namespace coxswain::engine {
namespace policy_loss_test {
namespace {

plan::Plan PolicyPlan(const plan::PolicyLoss* loss, int32_t replicate = 1) {
  PlanOptions options;
  options.init = "random";
  options.sequence_len = 40;
  options.max_documents_per_bin = 3;
  options.replicate = replicate;
  plan::Plan plan = MakePlan(SmallConfig(), options);
  if (loss != nullptr) plan.policy_loss = *loss;
  Finish(&plan);
  return plan;
}

const plan::PolicyLoss& Grpo() {
  static const plan::PolicyLoss kLoss = {.objective = "clip",
                                         .normaliser = "sequences",
                                         .epsilon_low = 0.2,
                                         .epsilon_high = 0.3,
                                         .kl_weight = 0.1};
  return kLoss;
}

// Targets of random bins have gaps; one document has none.
BinBatch Bins(uint64_t seed) {
  BinBatch bins = RandomBins({{17, 9}, {31, 3, 2}, {40}, {1, 12}}, SmallConfig().vocab_size, seed);
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < Targets(bins); ++i) {
    bins.advantages.push_back(normal(random));
    bins.old_log_probs.push_back(-5 + 0.1f * normal(random));
    bins.reference_log_probs.push_back(-5 + 0.1f * normal(random));
  }
  return bins;
}

TrainStep GrpoStep(int64_t step, const BinBatch& bins) {
  TrainStep train = MakeStep(step, bins);
  train.loss_denominator = 8;
  return train;
}

TEST(PolicyLossEngineTest, CountsMustBeThoseOfTargets) {
  const auto engine = Engine::Prepare(PolicyPlan(&Grpo()), 0, "");
  ASSERT_TRUE(engine.ok()) << engine.status();
  const auto refused = [&](const BinBatch& bins) {
    const absl::Status status = (*engine)->Train(GrpoStep(0, bins)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_EQ((*engine)->Evaluate(bins, {}).status(), status);
    return std::string(status.message());
  };
  const std::string all = std::to_string(Targets(Bins(1)));
  const std::string less = std::to_string(Targets(Bins(1)) - 1);
  BinBatch bins = Bins(1);
  bins.advantages.pop_back();
  EXPECT_EQ(refused(bins), "bins: " + less + " advantages and " + all + " old_log_probs, wanted " +
                               all + " each, and " + all + " reference_log_probs, wanted " + all +
                               ", for " + all + " targets");
  bins = Bins(1);
  bins.old_log_probs.push_back(0);
  EXPECT_NE(refused(bins), "");
  bins = Bins(1);
  bins.reference_log_probs.clear();
  EXPECT_NE(refused(bins).find("0 reference_log_probs, wanted " + all), std::string::npos);
  EXPECT_TRUE((*engine)->Train(GrpoStep(0, Bins(1))).ok());
}

// What a plan would not read is refused.
TEST(PolicyLossEngineTest, OtherPlansWantNone) {
  BinBatch bins = Bins(1);
  const auto plain = Engine::Prepare(PolicyPlan(nullptr), 0, "");
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_NE(std::string((*plain)->Train(MakeStep(0, bins)).status().message())
                .find("old_log_probs, wanted 0 each"),
            std::string::npos);
  EXPECT_EQ((*plain)->LogProbs(RandomBins({{17}}, 100, 1), false).status().code(),
            absl::StatusCode::kFailedPrecondition);
  const plan::PolicyLoss importance{.objective = "importance"};
  const auto engine = Engine::Prepare(PolicyPlan(&importance), 0, "");
  ASSERT_TRUE(engine.ok()) << engine.status();
  EXPECT_NE(
      std::string((*engine)->Train(MakeStep(0, bins)).status().message()).find("probs, wanted 0"),
      std::string::npos);
  EXPECT_EQ((*engine)->LogProbs(bins, false).status().code(), absl::StatusCode::kInvalidArgument);
}

// A step on the log-probabilities that the engine gave begins at the ratio 1: nothing is clipped,
// and the loss is minus the sum of the advantages. Over and over, an advantage raises its token.
TEST(PolicyLossEngineTest, BeginsAtTheRatioOneAndFollowsAdvantages) {
  const plan::PolicyLoss clip{.objective = "clip", .epsilon_low = 0.2, .epsilon_high = 0.2};
  const auto engine = Engine::Prepare(PolicyPlan(&clip), 0, "");
  ASSERT_TRUE(engine.ok()) << engine.status();
  BinBatch bins = Bins(2);
  bins.advantages.clear();
  bins.old_log_probs.clear();
  bins.reference_log_probs.clear();
  const auto before = (*engine)->LogProbs(bins, false);
  ASSERT_TRUE(before.ok()) << before.status();
  bins.old_log_probs = before->of_targets;
  bins.advantages.assign(before->of_targets.size(), 0.5f);
  const auto first = (*engine)->Train(MakeStep(0, bins));
  ASSERT_TRUE(first.ok()) << first.status();
  const auto rows = static_cast<double>(first->policy.rows);
  EXPECT_EQ(first->policy.rows, Targets(bins));
  EXPECT_EQ(first->policy.ratio, rows);
  EXPECT_EQ(first->policy.clipped_high, 0);
  EXPECT_EQ(first->loss_sum, -0.5 * rows);
  const TrainStep step = MakeStep(1, bins);
  const auto second = (*engine)->ForwardBackward(step);
  ASSERT_TRUE(second.ok()) << second.status();
  ASSERT_TRUE((*engine)->Update(step.update()).ok());
  EXPECT_GT(second->policy.ratio, 1.001 * rows);
}

// Invariant engine-5. The denominator is of the global batch, a document lies on one rank.
TEST(PolicyLossEngineTest, TwoRanksAreOne) {
  for (const char* ratio : {"token", "sequence"}) {
    plan::PolicyLoss loss = Grpo();
    loss.ratio = ratio;
    const auto run = [&](int32_t replicate) {
      const plan::Plan plan = PolicyPlan(&loss, replicate);
      Ranks ranks(static_cast<size_t>(replicate));
      WithEngines(plan, "", [&](int rank, Engine& engine) {
        for (int64_t step = 0; step < 4; ++step) {
          const BinBatch bins = Bins(static_cast<uint64_t>(step + 5));
          const auto stats =
              engine.Train(GrpoStep(step, replicate == 1 ? bins : PartOf(plan, bins, rank)));
          ASSERT_TRUE(stats.ok()) << stats.status();
          ranks[static_cast<size_t>(rank)].push_back(*stats);
        }
      });
      return ranks;
    };
    const Ranks one = run(1), two = run(2);
    ExpectEqualRuns(two, one[0]);
    for (size_t step = 0; step < 4; ++step) {
      const double kl = two[0][step].policy.kl + two[1][step].policy.kl;
      EXPECT_NEAR(kl, one[0][step].policy.kl, 1e-5 * kl) << ratio;
    }
  }
}

}  // namespace
}  // namespace policy_loss_test
}  // namespace coxswain::engine
