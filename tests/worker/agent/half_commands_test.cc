// FORWARD_BACKWARD and UPDATE over gRPC. Invariants agent-2 to agent-4 hold for them as for TRAIN.
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/worker/agent/fake_engine.h"
#include "tests/worker/agent/test_gang.h"
#include "worker/agent/wire/command_identity.h"

namespace coxswain::agent {
namespace half_commands_test {
namespace {

class HalfCommandsTest : public testing::Test {
 protected:
  HalfCommandsTest() {
    fake_engine::SetHooks({.train = [this](int, int64_t, const std::function<bool()>&) {
      ++computed_;
      return absl::OkStatus();
    }});
    EXPECT_EQ(rank_.Prepare().status(), absl::OkStatus());
    run_ = rank_.Run();
  }
  ~HalfCommandsTest() override { fake_engine::SetHooks({}); }

  v1::Command Batch(uint64_t seq, bool last, int64_t denominator = 6) const {
    v1::Command command = rank_.Command(seq);
    v1::ForwardBackward& batch = *command.mutable_forward_backward();
    batch.set_step(4);
    *batch.mutable_bins() = bins_;
    batch.set_loss_denominator(denominator);
    batch.set_last(last);
    return command;
  }

  v1::Command Update(uint64_t seq, double rate = 1e-3) const {
    v1::Command command = rank_.Command(seq);
    command.mutable_update()->set_step(4);
    command.mutable_update()->set_learning_rate(rate);
    return command;
  }

  v1::Event Answer(const v1::Command& command) {
    EXPECT_TRUE(run_->Send(command));
    return run_->Receive().value_or(v1::Event());
  }

  TestRegistry registry_;
  const std::unique_ptr<WorkerNode> node_ =
      std::move(WorkerNode::Start(TestOptions(registry_)).value());
  TestRank rank_{node_.get(), 0, 1};
  const v1::Bins bins_ = OneBin(7, {4, 9, 2, 5});  // three targets, 19 in the fake's sum
  std::atomic<int> computed_{0};
  std::unique_ptr<RunStreamClient> run_;
};

TEST_F(HalfCommandsTest, BatchesAreAnsweredAndTheUpdateTakesThemAll) {
  for (const uint64_t seq : {1, 2}) {
    const v1::Event event = Answer(Batch(seq, seq == 2));
    ASSERT_TRUE(event.has_done()) << event.failed().message();
    const v1::Done& done = event.done();
    EXPECT_DOUBLE_EQ(done.loss_sum(), (5 + 10 + 3) / 1000.0);
    EXPECT_EQ(done.targets(), 3);
    EXPECT_EQ(done.tokens(), 4);
    ASSERT_EQ(done.bin_ids_size(), 1);
    EXPECT_EQ(done.bin_ids(0), 7);
    EXPECT_FALSE(done.applied());
    EXPECT_EQ(done.memory().weights(), 1000u);
  }
  const v1::Event event = Answer(Update(3));
  ASSERT_TRUE(event.has_done()) << event.failed().message();
  EXPECT_TRUE(event.done().applied());
  EXPECT_DOUBLE_EQ(event.done().global_loss_sum(), 36 / 1000.0);
  EXPECT_DOUBLE_EQ(event.done().grad_norm(), 36 / 6.0);
  EXPECT_EQ(rank_.Inspect().last_step(), 4);
  EXPECT_EQ(rank_.Inspect().last_done_seq(), 3u);
  // The next step begins anew, and other commands come between its halves.
  EXPECT_TRUE(Answer(Batch(4, true)).has_done());
  v1::Command eval = rank_.Command(5);
  *eval.mutable_eval()->mutable_bins() = bins_;
  EXPECT_TRUE(Answer(eval).has_done());
  EXPECT_DOUBLE_EQ(Answer(Update(6)).done().grad_norm(), 18 / 6.0);
}

TEST_F(HalfCommandsTest, DuplicatesGetTheRecordedResultAndComputeNothing) {
  const std::vector<v1::Command> commands = {Batch(1, false), Batch(2, true), Update(3)};
  std::vector<std::string> answers;
  for (const v1::Command& command : commands) {
    answers.push_back(Answer(command).done().SerializeAsString());
  }
  // As a controller that came back.
  rank_.fence.set_term(2);
  run_ = rank_.Run();
  for (size_t i = 0; i < commands.size(); ++i) {
    v1::Command again = commands[i];
    *again.mutable_fence() = rank_.fence;
    EXPECT_EQ(Answer(again).done().SerializeAsString(), answers[i]) << i;
  }
  EXPECT_EQ(computed_, 2);
}

TEST_F(HalfCommandsTest, AnotherCommandOfAKnownNumberIsRefusedNamingBoth) {
  EXPECT_TRUE(Answer(Batch(1, false)).has_done());
  rank_.fence.set_term(2);
  run_ = rank_.Run();
  run_->Send(Update(1));
  EXPECT_FALSE(run_->Receive().has_value());
  EXPECT_EQ(run_->Finish().error_message(),
            "command 1 was forward_backward step 4, 1 bins and comes again as update step 4");
  EXPECT_NE(IdentityOf(Batch(1, false)), IdentityOf(Batch(1, true)));
  EXPECT_NE(IdentityOf(Batch(1, false)), IdentityOf(Batch(1, false, 7)));
  EXPECT_NE(IdentityOf(Update(1)), IdentityOf(Update(1, 2e-3)));
}

TEST_F(HalfCommandsTest, AnUpdateWithoutGradientsFailsAndEndsTheEpoch) {
  const v1::Event event = Answer(Update(1));
  ASSERT_TRUE(event.has_failed());
  EXPECT_EQ(event.failed().phase(), "update");
  EXPECT_FALSE(run_->Receive().has_value());
  EXPECT_EQ(rank_.Inspect().state(), "ABORTED");
}

// This rank alone has three targets.
TEST_F(HalfCommandsTest, ADenominatorBelowTheTargetsFails) {
  const v1::Event event = Answer(Batch(1, true, 1));
  ASSERT_TRUE(event.has_failed());
  EXPECT_NE(event.failed().message().find("loss_denominator is 1"), std::string::npos);
}

TEST_F(HalfCommandsTest, ARateThatIsNoNumberFails) {
  EXPECT_TRUE(Answer(Batch(1, true)).has_done());
  const v1::Event event = Answer(Update(2, std::numeric_limits<double>::quiet_NaN()));
  ASSERT_TRUE(event.has_failed());
  EXPECT_NE(event.failed().message().find("learning_rate is nan"), std::string::npos);
}

}  // namespace
}  // namespace half_commands_test
}  // namespace coxswain::agent
