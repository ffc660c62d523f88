#include "common/plan/policy_loss.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace coxswain::plan {
namespace policy_loss_test {
namespace {

TEST(PolicyLossPlanTest, NamesAreThoseOfTheKernel) {
  const auto spec = [](const char* objective, const char* normaliser) {
    return SpecOf(PolicyLoss{.objective = objective, .normaliser = normaliser});
  };
  EXPECT_EQ(spec("importance", "tokens").objective, kernels::PolicyObjective::kImportance);
  EXPECT_EQ(spec("clip", "tokens").objective, kernels::PolicyObjective::kClip);
  EXPECT_EQ(spec("cispo", "tokens").objective, kernels::PolicyObjective::kCispo);
  EXPECT_EQ(spec("clip", "tokens").normaliser, kernels::PolicyNormaliser::kTokens);
  EXPECT_EQ(spec("clip", "sequences").normaliser, kernels::PolicyNormaliser::kSequences);
  EXPECT_EQ(spec("clip", "constant").normaliser, kernels::PolicyNormaliser::kConstant);
  const kernels::PolicyLossSpec gspo = SpecOf(PolicyLoss{.objective = "clip",
                                                         .ratio = "sequence",
                                                         .epsilon_low = 0.25,
                                                         .epsilon_high = 0.5,
                                                         .delta = 2,
                                                         .kl_weight = 0.125});
  EXPECT_TRUE(gspo.sequence_ratio);
  EXPECT_EQ(gspo.epsilon_low, 0.25);
  EXPECT_EQ(gspo.epsilon_high, 0.5);
  EXPECT_EQ(gspo.delta, 2);
  EXPECT_EQ(gspo.kl_weight, 0.125);
  EXPECT_FALSE(spec("clip", "tokens").sequence_ratio);
}

TEST(PolicyLossPlanTest, SaysWhatItCountsAndWants) {
  EXPECT_FALSE(PolicyLoss().any());
  EXPECT_EQ((PolicyLoss{.objective = "", .normaliser = "constant"}).documents_per_unit(), 0);
  EXPECT_EQ(PolicyLoss{.objective = "clip"}.documents_per_unit(), 0);
  EXPECT_EQ((PolicyLoss{.objective = "clip", .normaliser = "sequences"}).documents_per_unit(), 1);
  EXPECT_EQ((PolicyLoss{.objective = "clip", .normaliser = "constant"}).documents_per_unit(), 1);
  EXPECT_FALSE(PolicyLoss{.objective = "clip"}.has_kl());
  EXPECT_TRUE((PolicyLoss{.objective = "clip", .kl_weight = 0.5}).has_kl());
}

// An objective refuses the numbers that it would not read.
TEST(PolicyLossPlanTest, NamesWhatCannotBe) {
  const auto message = [](const PolicyLoss& loss) {
    return std::string(CheckPolicyLoss(loss).message());
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(message({}), "");
  EXPECT_EQ(message({.objective = "clip", .epsilon_low = 0.2, .epsilon_high = 0.2}), "");
  EXPECT_EQ(message({.objective = "cispo", .ratio = "sequence", .epsilon_high = 2}), "");
  EXPECT_EQ(message({.objective = "importance", .normaliser = "constant", .kl_weight = 0.1}), "");
  EXPECT_EQ(message({.objective = "ppo"}),
            "policy_loss.objective is \"ppo\", must be one of importance, clip, cispo");
  EXPECT_EQ(message({.objective = "clip", .ratio = ""}),
            "policy_loss.ratio is \"\", must be one of token, sequence");
  EXPECT_EQ(message({.objective = "clip", .normaliser = "rows"}),
            "policy_loss.normaliser is \"rows\", must be one of tokens, sequences, constant");
  EXPECT_EQ(message({.objective = "clip", .epsilon_low = -1}),
            "policy_loss.epsilon_low is -1 of clip, must be finite and at least 0");
  EXPECT_EQ(message({.objective = "clip", .delta = nan}),
            "policy_loss.delta is nan of clip, must be finite and at least 0");
  EXPECT_EQ(message({.objective = "importance", .epsilon_high = 0.2}),
            "policy_loss.epsilon_high is 0.2 of importance, must be 0");
  EXPECT_EQ(message({.objective = "cispo", .epsilon_low = 0.2, .epsilon_high = 2}),
            "policy_loss.epsilon_low is 0.2 of cispo, must be 0");
  EXPECT_EQ(message({.objective = "cispo", .epsilon_high = 2, .delta = 2}),
            "policy_loss.delta is 2 of cispo, must be 0");
  EXPECT_EQ(message({.objective = "cispo"}),
            "policy_loss.epsilon_high is 0 of cispo, which bounds the ratio: must be above 0");
  EXPECT_EQ(message({.objective = "clip", .kl_weight = -0.5}),
            "policy_loss.kl_weight is -0.5 of clip, must be finite and at least 0");
}

}  // namespace
}  // namespace policy_loss_test
}  // namespace coxswain::plan
