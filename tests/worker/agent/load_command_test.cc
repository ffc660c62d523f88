// LOAD over gRPC: files that cannot be read are an answer.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "common/plan/checks/plan_bytes.h"
#include "tests/support/scratch_folder.h"
#include "tests/worker/agent/fake_engine.h"
#include "tests/worker/agent/test_gang.h"

namespace coxswain::agent {
namespace load_command_test {
namespace {

class LoadCommandTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string bytes = plan::SerializePlan(TestPlan(1));
    rank_.fence.set_plan_hash(plan::PlanHash(bytes));
    v1::PrepareRequest request = rank_.PrepareRequest();
    request.set_plan(bytes);
    grpc::ClientContext context;
    v1::PrepareResponse response;
    const grpc::Status status = rank_.stub()->Prepare(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    run_ = rank_.Run();
  }
  v1::Event AnswerTo(uint64_t seq, const std::string& adapter) {
    v1::Command command = rank_.Command(seq);
    command.mutable_load()->set_adapter_dir(adapter);
    EXPECT_TRUE(run_->Send(command));
    return run_->Receive().value_or(v1::Event());
  }

  const support::ScratchFolder scratch_;
  TestRegistry registry_;
  const std::unique_ptr<WorkerNode> node_ =
      std::move(WorkerNode::Start(TestOptions(registry_)).value());
  TestRank rank_{node_.get(), 0, 1};
  std::unique_ptr<RunStreamClient> run_;
};

TEST_F(LoadCommandTest, FilesThatCannotBeReadAreAnAnswerNotAFailureOfTheRank) {
  const v1::Event refused = AnswerTo(1, scratch_.path() + "/nothing");
  ASSERT_TRUE(refused.has_done()) << refused.failed().message();
  EXPECT_EQ(refused.done().refused(), "no folder " + scratch_.path() + "/nothing");
  const v1::Event loaded = AnswerTo(2, scratch_.path());
  ASSERT_TRUE(loaded.has_done()) << loaded.failed().message();
  EXPECT_EQ(loaded.done().refused(), "");
}

}  // namespace
}  // namespace load_command_test
}  // namespace coxswain::agent
