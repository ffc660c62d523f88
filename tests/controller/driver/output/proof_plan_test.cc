// What is asked to prove an export, within its time, and what the answers come to.
#include "controller/driver/output/proof_plan.h"

#include <gtest/gtest.h>

#include <cmath>

namespace coxswain::driver {
namespace proof_plan_test {
namespace {

using testing::Test;

class ProofPlanTest : public Test {
 protected:
  static StagedFolder Adapter() {
    return {.directory = "/out/.staging/adapter",
            .adapter = true,
            .verification = {.artifact = "adapter", .bound_from = "equal bits"}};
  }
  // Of full training, in files that hold what was trained, or round it.
  static StagedFolder Model(bool rounded = false) {
    return {.directory = "/out/.staging/model",
            .rounded = rounded,
            .verification = {.artifact = "model", .bound_from = "the files"}};
  }
  static StagedFolder Merge(double rounding, double lost) {
    StagedFolder folder = Model();
    folder.rounding = rounding;
    folder.lost = lost;
    folder.base_dir = "/base";
    return folder;
  }
  // Of two records of 10 targets.
  static ProofInput Input(std::vector<StagedFolder> folders) {
    return {
        .staged = {std::move(folders)},
        .checkpoint_dir = "/out/checkpoint-4",
        .holds_checkpoint = true,
        .records = {{.id = 0, .tokens = 20, .targets = 10}, {.id = 1, .tokens = 20, .targets = 10}},
        .cost = {.seconds = 60}};
  }
  // The folders of the questions in turn: "trained", or what is loaded.
  static std::vector<std::string> Asked(const ProofPlan& plan) {
    std::vector<std::string> asked;
    for (const std::optional<v1::Load>& load : plan.questions().weights) {
      asked.push_back(
          !load ? "trained"
                : load->adapter_dir() + load->checkpoint_dir() +
                      (load->checkpoint_dir().empty() || load->model_dir().empty() ? "" : " as ") +
                      load->model_dir() + (load->shake() > 0 ? " shaken" : ""));
    }
    return asked;
  }
  static const Verification& Of(const ProofPlan& plan, size_t folder) {
    return plan.staged().folders[folder].verification;
  }
};

TEST_F(ProofPlanTest, AsksForTheAdapterBeforeTheMergeThatReplacesItsBase) {
  const ProofPlan plan(Input({Adapter(), Merge(0.25, 0.5)}));
  EXPECT_EQ(Asked(plan),
            (std::vector<std::string>{"trained", "/out/.staging/adapter", "/out/.staging/model",
                                      "/base", "/out/checkpoint-4 shaken"}));
  EXPECT_EQ(plan.questions().records, 2);
}

TEST_F(ProofPlanTest, HoldsAModelWhoseFilesRoundAgainstTheCheckpointSoRounded) {
  EXPECT_EQ(Asked(ProofPlan(Input({Model(/*rounded=*/true)}))),
            (std::vector<std::string>{"trained", "/out/.staging/model",
                                      "/out/checkpoint-4 as /out/.staging/model"}));
}

TEST_F(ProofPlanTest, LoadsTheCheckpointWhereTheGangIsBeyondIt) {
  ProofInput input = Input({Model()});
  input.holds_checkpoint = false;
  EXPECT_EQ(Asked(ProofPlan(std::move(input))),
            (std::vector<std::string>{"/out/checkpoint-4", "/out/.staging/model"}));
}

TEST_F(ProofPlanTest, AsksForFewerRecordsOfASlowModel) {
  ProofInput input = Input({Model()});
  input.cost = {.seconds = 60, .load_seconds = 40, .record_seconds = 9};  // 20 s for 2 x 9 s
  const ProofPlan plan(std::move(input));
  EXPECT_EQ(plan.questions().records, 1);
}

TEST_F(ProofPlanTest, SkipsAModelThatLoadsTooLongAndProvesTheAdapter) {
  ProofInput input = Input({Adapter(), Merge(0.25, 0)});
  input.cost = {.seconds = 60, .load_seconds = 40, .record_seconds = 1};  // two loads: 80 s
  const ProofPlan plan(std::move(input));
  EXPECT_EQ(Asked(plan), (std::vector<std::string>{"trained", "/out/.staging/adapter"}));
  EXPECT_EQ(Of(plan, 1).reason,
            "loading it takes about 40 s each time, and the comparison may take 60 s in all");
}

TEST_F(ProofPlanTest, AsksNothingWhereNothingCanBeCompared) {
  StagedFolder model = Model();
  model.verification.reason = "the base is quantised";
  const ProofPlan plan(Input({model}));
  EXPECT_FALSE(plan.asks());
  EXPECT_EQ(Of(plan, 0).reason, "the base is quantised");
}

TEST_F(ProofPlanTest, EqualBitsAreVerified) {
  ProofPlan plan(Input({Adapter()}));
  ASSERT_TRUE(plan.Judge({.losses = {{20, 30}, {20, 30}}}, "", 1.5).ok());
  EXPECT_EQ(Of(plan, 0), (Verification{.artifact = "adapter",
                                       .verified = true,
                                       .records = 2,
                                       .targets = 20,
                                       .bound_from = "equal bits",
                                       .seconds = 1.5}));
}

TEST_F(ProofPlanTest, AnotherLastBitFailsWhereNothingIsRounded) {
  ProofPlan plan(Input({Adapter()}));
  const absl::Status status =
      plan.Judge({.losses = {{20, 30}, {20, std::nextafter(30, 31)}}}, "", 1);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_FALSE(Of(plan, 0).verified);
}

TEST_F(ProofPlanTest, TheMessageNamesRecordBothValuesAndTheBound) {
  ProofPlan plan(Input({Adapter()}));
  const std::string message(plan.Judge({.losses = {{20, 30}, {20, 35}}}, "", 1).message());
  EXPECT_NE(message.find("the exported adapter, read back from /out/.staging/adapter"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("record 1 (10 targets) has a loss of 3.5 nats per target, in the trained "
                         "state 3; the difference 0.5 is beyond the bound 0, equal bits"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("/out/checkpoint-4"), std::string::npos) << message;
}

TEST_F(ProofPlanTest, NotANumberIsBeyondEveryBound) {
  ProofPlan plan(Input({Merge(0.25, 0)}));
  EXPECT_TRUE(absl::IsDataLoss(plan.Judge({.losses = {{20, 30}, {20, NAN}, {21, 31}}}, "", 1)));
}

// Whatever the rounding does to the trained state, e.g. takes all of a training of small steps
// back.
TEST_F(ProofPlanTest, AModelWhoseFilesRoundHasTheBitsOfTheRoundedCheckpoint) {
  ProofPlan same(Input({Model(/*rounded=*/true)}));
  ASSERT_TRUE(same.Judge({.losses = {{20, 30}, {25, 31}, {25, 31}}}, "", 1).ok());
  EXPECT_TRUE(Of(same, 0).verified);
  EXPECT_DOUBLE_EQ(Of(same, 0).difference, 0.5);
  EXPECT_DOUBLE_EQ(Of(same, 0).bound, 0.5);
  ProofPlan other(Input({Model(/*rounded=*/true)}));
  const absl::Status status =
      other.Judge({.losses = {{20, 30}, {25, 31}, {25, std::nextafter(31, 32)}}}, "", 1);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_NE(status.message().find("in the trained state so rounded 3.1"), std::string::npos)
      << status;
}

// Each record moves by 0.1 nats per target where every weight changes by the rounding: s = 0.1, and
// the bound of two records 8 sqrt(8 / 2) s = 1.6, and 2^-21 of the loss.
TEST_F(ProofPlanTest, AMergeMayDifferByWhatItsRoundingDoes) {
  ProofPlan within(Input({Merge(0.25, 0)}));
  ASSERT_TRUE(within.Judge({.losses = {{20, 30}, {20, 45.9}, {21, 29}}}, "", 1).ok());
  EXPECT_NEAR(Of(within, 0).difference, 1.59, 1e-12);
  EXPECT_NEAR(Of(within, 0).bound, 1.6 + std::ldexp(3.0, -21), 1e-12);
  ProofPlan beyond(Input({Merge(0.25, 0)}));
  EXPECT_TRUE(absl::IsDataLoss(beyond.Judge({.losses = {{20, 30}, {20, 46.1}, {21, 29}}}, "", 1)));
}

// Half of an adapter that does 1 nat per target to record 1 is rounded away: 2 x 0.5 x 1 more.
TEST_F(ProofPlanTest, AMergeMayLoseWhatRoundingTakesBackOfTheAdapter) {
  ProofPlan within(Input({Merge(0.25, 0.5)}));
  ASSERT_TRUE(within.Judge({.losses = {{20, 30}, {20, 55.9}, {30, 40}, {21, 29}}}, "", 1).ok());
  EXPECT_NEAR(Of(within, 0).bound, 2.6 + std::ldexp(3.0, -21), 1e-12);
  ProofPlan beyond(Input({Merge(0.25, 0.5)}));
  EXPECT_TRUE(absl::IsDataLoss(
      beyond.Judge({.losses = {{20, 30}, {20, 56.1}, {30, 40}, {21, 29}}}, "", 1)));
}

TEST_F(ProofPlanTest, WhatTheReaderRefusesFailsWithItsWords) {
  ProofPlan plan(Input({Adapter()}));
  const absl::Status status =
      plan.Judge({.losses = {{20, 30}}, .refused = "rank 0: tensor q is missing"}, "", 1);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_NE(status.message().find("rank 0: tensor q is missing"), std::string::npos);
}

TEST_F(ProofPlanTest, SettingsThatTheReaderRefusesFailBeforeAnythingIsAsked) {
  EXPECT_TRUE(ProofPlan(Input({Adapter()})).CheckSettings().ok());
  StagedFolder adapter = Adapter();
  adapter.refused = "lora.alpha is 16, adapter_config.json says 8";
  const absl::Status status = ProofPlan(Input({adapter})).CheckSettings();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_NE(status.message().find("cannot be read back: lora.alpha is 16"), std::string::npos);
}

// The checkpoint is not what is exported.
TEST_F(ProofPlanTest, ACheckpointThatIsRefusedProvesNothing) {
  ProofPlan plan(Input({Merge(0.25, 0)}));
  ASSERT_TRUE(plan.Judge({.losses = {{20, 30}, {20, 30}}, .refused = "rank 0: gone"}, "", 1).ok());
  EXPECT_FALSE(Of(plan, 0).verified);
  EXPECT_EQ(Of(plan, 0).reason, "the checkpoint could not be read again: rank 0: gone");
}

TEST_F(ProofPlanTest, WhatWasCutIsSkippedNotVerified) {
  ProofPlan plan(Input({Adapter(), Model()}));
  ASSERT_TRUE(plan.Judge({.losses = {{20, 30}, {20, 30}, {20}}}, "it took too long", 61).ok());
  EXPECT_TRUE(Of(plan, 0).verified);
  EXPECT_FALSE(Of(plan, 1).verified);
  EXPECT_EQ(Of(plan, 1).reason, "it took too long");
}

TEST_F(ProofPlanTest, ATrainedStateThatIsNotFiniteProvesNothing) {
  ProofPlan plan(Input({Adapter()}));
  ASSERT_TRUE(plan.Judge({.losses = {{NAN, 30}, {NAN, 30}}}, "", 1).ok());
  EXPECT_FALSE(Of(plan, 0).verified);
  EXPECT_EQ(Of(plan, 0).reason, "the loss of record 0 in the trained state is nan");
}

}  // namespace
}  // namespace proof_plan_test
}  // namespace coxswain::driver
