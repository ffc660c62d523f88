// The commands of a plan with a policy loss over gRPC: what they bring and what comes back.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/plan/checks/plan_bytes.h"
#include "tests/worker/agent/fake_engine.h"
#include "tests/worker/agent/test_gang.h"

namespace coxswain::agent {
namespace policy_commands_test {
namespace {

class PolicyCommandsTest : public testing::Test {
 protected:
  ~PolicyCommandsTest() override { fake_engine::SetHooks({}); }

  void Prepare(const char* normaliser) {
    plan::Plan plan = TestPlan(1);
    plan.policy_loss = {.objective = "importance", .normaliser = normaliser};
    const std::string bytes = plan::SerializePlan(plan);
    rank_.fence.set_plan_hash(plan::PlanHash(bytes));
    v1::PrepareRequest request = rank_.PrepareRequest();
    request.set_plan(bytes);
    grpc::ClientContext context;
    v1::PrepareResponse response;
    const grpc::Status status = rank_.stub()->Prepare(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    run_ = rank_.Run();
  }

  v1::Event Answer(const v1::Command& command) {
    EXPECT_TRUE(run_->Send(command));
    return run_->Receive().value_or(v1::Event());
  }

  TestRegistry registry_;
  const std::unique_ptr<WorkerNode> node_ =
      std::move(WorkerNode::Start(TestOptions(registry_)).value());
  TestRank rank_{node_.get(), 0, 1};
  std::unique_ptr<RunStreamClient> run_;
  const v1::Bins bins_ = OneBin(7, {4, 9, 2, 5});
};

TEST_F(PolicyCommandsTest, ReportsComeWithStepsAndEvaluations) {
  Prepare("tokens");
  fake_engine::SetHooks({.policy = {.clipped_low = 1,
                                    .clipped_high = 2,
                                    .clippable = 8,
                                    .kl = 0.5,
                                    .ratio = 3,
                                    .rows = 4,
                                    .low_min = 0.25,
                                    .high_max = 0.75}});
  v1::Command eval = rank_.Command(2);
  *eval.mutable_eval()->mutable_bins() = bins_;
  for (const v1::Command& command : {rank_.Train(1, 0, bins_, 3), eval}) {
    const v1::Event event = Answer(command);
    ASSERT_TRUE(event.has_done()) << event.failed().message();
    const v1::PolicyReport& told = event.done().policy();
    EXPECT_EQ(told.clipped_low(), 1);
    EXPECT_EQ(told.clipped_high(), 2);
    EXPECT_EQ(told.clippable(), 8);
    EXPECT_EQ(told.kl(), 0.5);
    EXPECT_EQ(told.ratio(), 3);
    EXPECT_EQ(told.targets(), 4);
    EXPECT_EQ(told.low_min(), 0.25);
    EXPECT_EQ(told.high_max(), 0.75);
  }
  fake_engine::SetHooks({});
  EXPECT_FALSE(Answer(rank_.Train(3, 1, bins_, 3)).done().has_policy());
}

// The fake engine takes a target's token for its log-probability.
TEST_F(PolicyCommandsTest, LogProbabilitiesOfTargetsComeBackInOrder) {
  Prepare("tokens");
  v1::Command command = rank_.Command(1);
  *command.mutable_log_probs()->mutable_bins() = bins_;
  const v1::Event event = Answer(command);
  ASSERT_TRUE(event.has_done()) << event.failed().message();
  const auto& told = event.done().token_log_probs();
  EXPECT_EQ(std::vector<float>(told.begin(), told.end()), (std::vector<float>{9, 2, 5}));
}

// The bin has three targets in one document.
TEST_F(PolicyCommandsTest, ADenominatorOfTokensCountsTargets) {
  Prepare("tokens");
  EXPECT_FALSE(Answer(rank_.Train(1, 0, bins_, 1)).has_done());
}

TEST_F(PolicyCommandsTest, ADenominatorOfSequencesCountsDocuments) {
  Prepare("sequences");
  const v1::Event event = Answer(rank_.Train(1, 0, bins_, 1));
  EXPECT_TRUE(event.has_done()) << event.failed().message();
}

}  // namespace
}  // namespace policy_commands_test
}  // namespace coxswain::agent
