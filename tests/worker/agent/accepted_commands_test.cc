// A worker names the commands that it has when it registers, for a controller that comes back: in
// what order they were sent depended on time.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "common/kept_answers.h"
#include "tests/support/eventually.h"
#include "tests/worker/agent/fake_engine.h"
#include "tests/worker/agent/test_gang.h"

namespace coxswain::agent {
namespace accepted_commands_test {
namespace {

using support::Eventually;

class AcceptedCommandsTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(rank_.Prepare().status(), absl::OkStatus());
    run_ = rank_.Run();
  }
  void Answered(const v1::Command& command) {
    run_->Send(command);
    const auto event = run_->Receive();
    ASSERT_TRUE(event.has_value() && event->has_done());
  }

  TestRegistry registry_;
  const std::unique_ptr<WorkerNode> node_ =
      std::move(WorkerNode::Start(TestOptions(registry_)).value());
  TestRank rank_{node_.get(), 0, 1};
  std::unique_ptr<RunStreamClient> run_;
  const v1::Bins bins_ = OneBin(7, {4, 9, 2, 5});
};

TEST_F(AcceptedCommandsTest, AreNamedInTheirOrder) {
  v1::Command snapshot = rank_.Command(2);
  snapshot.mutable_snapshot()->set_step(1);
  Answered(rank_.Train(1, 0, bins_, 3));
  Answered(snapshot);
  Answered(rank_.Train(3, 1, bins_, 3));
  registry_.AskToRegisterAgain();
  ASSERT_TRUE(Eventually([&] { return registry_.registrations().size() == 2; }));
  const v1::RegisterRequest hello = registry_.registrations().back();
  EXPECT_EQ(hello.last_queued_seq(), 3u);
  EXPECT_EQ(std::vector<int>(hello.queued().begin(), hello.queued().end()),
            (std::vector<int>{v1::COMMAND_KIND_TRAIN, v1::COMMAND_KIND_SNAPSHOT,
                              v1::COMMAND_KIND_TRAIN}));
}

TEST_F(AcceptedCommandsTest, AreNamedAsLongAsTheirAnswersAreKept) {
  constexpr uint64_t kCommands = kKeptAnswers + 2;
  for (uint64_t seq = 1; seq <= kCommands; ++seq) Answered(rank_.Train(seq, seq - 1, bins_, 3));
  const Agent::Progress progress = node_->agent().progress();
  EXPECT_EQ(progress.last_done_seq, kCommands);
  // The last one was accepted when the answer to the second was still kept.
  EXPECT_EQ(progress.queued.size(), kCommands - 1);
}

}  // namespace
}  // namespace accepted_commands_test
}  // namespace coxswain::agent
