// One worker driven over gRPC by a test controller: epochs, fences, order, abort.
#include "worker/agent/agent.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <future>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/files/block_digests.h"
#include "common/files/hash.h"
#include "common/files/read_file.h"
#include "common/net/grpc_endpoint.h"
#include "common/net/grpc_status.h"
#include "common/plan/checks/plan_bytes.h"
#include "tests/support/eventually.h"
#include "tests/support/scratch_folder.h"
#include "tests/worker/agent/fake_engine.h"
#include "tests/worker/agent/test_gang.h"
#include "worker/agent/device_state.h"

namespace coxswain::agent {
namespace {

using support::Eventually;

// Keeps TRAIN commands inside the engine until opened, or until the engine is aborted.
class Valve {
 public:
  Valve() {
    fake_engine::SetHooks({.prepare = {},
                           .train =
                               [this](int, int64_t, const std::function<bool()>& aborted) {
                                 ++entered;
                                 Eventually([&] { return open.load() || aborted(); });
                                 ++left;
                                 return aborted() ? absl::CancelledError("aborted")
                                                  : absl::OkStatus();
                               },
                           .evaluate = {},
                           .snapshot = {}});
  }
  // Nobody is inside any more.
  ~Valve() {
    fake_engine::SetHooks({});
    open = true;
    EXPECT_TRUE(Eventually([this] { return left == entered; }));
  }
  std::atomic<int> entered{0}, left{0};
  std::atomic<bool> open{false};
};

class AgentTest : public testing::Test {
 protected:
  AgentTest() {
    node_ = std::move(WorkerNode::Start(TestOptions(registry_)).value());
    rank_ = std::make_unique<TestRank>(node_.get(), 0, 1);
  }
  ~AgentTest() override { fake_engine::SetHooks({}); }

  TestRegistry registry_;
  std::unique_ptr<WorkerNode> node_;
  std::unique_ptr<TestRank> rank_;
  const v1::Bins bins_ = OneBin(7, {4, 9, 2, 5});
};

TEST_F(AgentTest, PromptsReachTheEngineAndAnswersComeBack) {
  ASSERT_TRUE(rank_->Prepare().ok());
  ASSERT_TRUE(ConnectAll({rank_.get()}).ok());
  auto run = rank_->Run();
  v1::Command command = rank_->Command(1);
  v1::Generate& generate = *command.mutable_generate();
  for (const int32_t last : {5, 9}) {
    v1::TokenIds* prompt = generate.add_prompts();
    prompt->add_ids(1);
    prompt->add_ids(last);
  }
  generate.set_tokens(3);
  generate.add_ends(7);
  generate.add_ends(8);
  generate.mutable_sampling()->set_temperature(0.5);
  generate.mutable_sampling()->set_top_p(1);
  ASSERT_TRUE(run->Send(command));
  const auto event = run->Receive();
  ASSERT_TRUE(event.has_value());
  ASSERT_TRUE(event->has_done()) << event->failed().message();
  ASSERT_EQ(event->done().texts_size(), 2);
  const v1::GeneratedText& first = event->done().texts(0);
  EXPECT_EQ(std::vector<int32_t>(first.ids().begin(), first.ids().end()),
            (std::vector<int32_t>{5, 5, 5}));
  EXPECT_TRUE(first.ended() && first.cut());
  EXPECT_EQ(event->done().texts(1).ids(0), 9);
  EXPECT_FALSE(event->done().texts(1).ended());
}

// The answer has the model's numbers, Inspect those of its layers too, of the newest step alone.
TEST_F(AgentTest, ExpertsAreToldWithTheStepAndByInspect) {
  engine::ExpertUse use{.layers = {{.layer = 1, .load_ratio = 1.5, .unused_experts = 2},
                                   {.layer = 3, .load_ratio = 2.5, .router_entropy = 0.5}},
                        .load_ratio = 2,
                        .worst_load_ratio = 2.5,
                        .worst_layer = 3,
                        .unused_experts = 2,
                        .router_entropy = 0.25,
                        .nonfinite_tokens = 7,
                        .balance_loss = 1.25,
                        .z_loss = std::nullopt};
  ASSERT_TRUE(rank_->Prepare().ok());
  ASSERT_TRUE(ConnectAll({rank_.get()}).ok());
  auto run = rank_->Run();
  for (int step = 0; step < 2; ++step) {
    fake_engine::SetHooks({.experts = use});
    ASSERT_TRUE(run->Send(rank_->Train(static_cast<uint64_t>(step) + 1, step, bins_, 3)));
    const auto event = run->Receive();
    ASSERT_TRUE(event.has_value());
    const v1::ExpertUse& told = event->done().experts();
    EXPECT_EQ(told.load_ratio(), 2);
    EXPECT_EQ(told.worst_load_ratio(), 2.5);
    EXPECT_EQ(told.worst_layer(), 3);
    EXPECT_EQ(told.unused_experts(), 2);
    EXPECT_EQ(told.router_entropy(), 0.25);
    EXPECT_EQ(told.nonfinite_tokens(), 7);
    EXPECT_EQ(told.balance_loss(), 1.25);
    EXPECT_FALSE(told.has_z_loss());
    const v1::WorkerInspectResponse inspected = rank_->Inspect();
    EXPECT_EQ(inspected.experts().SerializeAsString(), told.SerializeAsString());
    ASSERT_EQ(inspected.expert_layers_size(), 2);
    EXPECT_EQ(inspected.expert_layers(0).unused_experts(), 2);
    EXPECT_EQ(inspected.expert_layers(1).layer(), 3);
    EXPECT_EQ(inspected.expert_layers(1).router_entropy(), 0.5);
  }
  fake_engine::SetHooks({});
  ASSERT_TRUE(run->Send(rank_->Train(3, 2, bins_, 3)));
  EXPECT_FALSE(run->Receive()->done().has_experts());
  EXPECT_EQ(rank_->Inspect().expert_layers_size(), 0);
}

TEST_F(AgentTest, PrepareTrainStopRelease) {
  ASSERT_EQ(rank_->Inspect().state(), "IDLE");
  const auto prepared = rank_->Prepare();
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_EQ(prepared->memory().weights(), 1000u);
  EXPECT_EQ(prepared->fingerprint(), "fake");
  EXPECT_EQ(rank_->Inspect().state(), "READY");
  ASSERT_TRUE(ConnectAll({rank_.get()}).ok());
  EXPECT_EQ(rank_->Inspect().state(), "CONNECTED");

  auto run = rank_->Run();
  ASSERT_TRUE(run->Send(rank_->Train(1, 0, bins_, 3)));
  const auto event = run->Receive();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->seq(), 1u);
  EXPECT_EQ(event->fence().SerializeAsString(), rank_->fence.SerializeAsString());
  ASSERT_TRUE(event->has_done()) << event->failed().message();
  EXPECT_DOUBLE_EQ(event->done().loss_sum(), (5 + 10 + 3) / 1000.0);
  EXPECT_DOUBLE_EQ(event->done().grad_norm(), 18 / 3.0);
  EXPECT_EQ(event->done().targets(), 3);
  EXPECT_EQ(event->done().tokens(), 4);
  EXPECT_EQ(event->done().bin_ids(0), 7);
  EXPECT_TRUE(event->done().applied());

  v1::Command stop = rank_->Command(2);
  stop.mutable_stop();
  run->Send(stop);
  run->WritesDone();
  ASSERT_TRUE(run->Receive().has_value());
  EXPECT_FALSE(run->Receive().has_value());
  EXPECT_TRUE(run->Finish().ok());
  EXPECT_TRUE(rank_->Release().ok());
  EXPECT_TRUE(rank_->Release().ok());  // idempotent
  EXPECT_EQ(rank_->Inspect().state(), "IDLE");
  EXPECT_TRUE(Eventually([] { return fake_engine::LiveEngines() == 0; }));
}

// Invariant agent-3.
TEST_F(AgentTest, CommandsRunInOrderOneEventEach) {
  ASSERT_EQ(rank_->Prepare().status(), absl::OkStatus());
  auto run = rank_->Run();
  for (uint64_t seq = 1; seq <= 40; ++seq) run->Send(rank_->Train(seq, seq - 1, bins_, 3));
  run->WritesDone();
  for (uint64_t seq = 1; seq <= 40; ++seq) {
    const auto event = run->Receive();
    ASSERT_TRUE(event.has_value());
    EXPECT_EQ(event->seq(), seq);
    // The fake's loss falls with the updates applied before.
    EXPECT_DOUBLE_EQ(event->done().loss_sum(), 18 / 1000.0 / static_cast<double>(seq));
  }
  EXPECT_FALSE(run->Receive().has_value());
  EXPECT_TRUE(run->Finish().ok());
}

// Invariant agent-2.
TEST_F(AgentTest, DuplicateGivesTheRecordedResultAndRunsNothing) {
  std::atomic<int> trained{0};
  fake_engine::SetHooks({.prepare = {},
                         .train =
                             [&](int, int64_t, const std::function<bool()>&) {
                               ++trained;
                               return absl::OkStatus();
                             },
                         .evaluate = {},
                         .snapshot = {}});
  ASSERT_EQ(rank_->Prepare().status(), absl::OkStatus());
  auto run = rank_->Run();
  run->Send(rank_->Train(1, 0, bins_, 3));
  run->Send(rank_->Train(2, 1, bins_, 3));
  const auto first = run->Receive();
  ASSERT_TRUE(run->Receive().has_value());

  // As a controller that came back: a higher term, a new stream, from the first command on.
  rank_->fence.set_term(2);
  auto again = rank_->Run();
  again->Send(rank_->Train(1, 0, bins_, 3));
  const auto repeated = again->Receive();
  ASSERT_TRUE(repeated.has_value());
  EXPECT_EQ(repeated->done().SerializeAsString(), first->done().SerializeAsString());
  EXPECT_EQ(repeated->fence().term(), 2u);
  EXPECT_EQ(trained, 2);
  // The older stream was replaced.
  EXPECT_FALSE(run->Receive().has_value());
  EXPECT_EQ(run->Finish().error_code(), grpc::StatusCode::ABORTED);
  // And the sequence goes on.
  again->Send(rank_->Train(2, 1, bins_, 3));
  again->Send(rank_->Train(3, 2, bins_, 3));
  EXPECT_EQ(again->Receive()->seq(), 2u);
  EXPECT_EQ(again->Receive()->seq(), 3u);
  EXPECT_EQ(trained, 3);
}

TEST_F(AgentTest, DuplicateOfARunningCommandGetsItsEventOnTheNewStream) {
  Valve valve;
  ASSERT_EQ(rank_->Prepare().status(), absl::OkStatus());
  auto run = rank_->Run();
  run->Send(rank_->Train(1, 0, bins_, 3));
  ASSERT_TRUE(Eventually([&] { return valve.entered == 1; }));
  run->Cancel();
  auto again = rank_->Run();
  again->Send(rank_->Train(1, 0, bins_, 3));
  EXPECT_EQ(run->Finish().error_code(), grpc::StatusCode::CANCELLED);
  // The duplicate was taken when the new stream's next command, a gap, is refused.
  valve.open = true;
  const auto event = again->Receive();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->seq(), 1u);
  EXPECT_EQ(valve.entered, 1);
}

// What another controller sends again is what was sent, or the gang does not go on.
TEST_F(AgentTest, AnotherCommandOfAKnownNumberIsRefusedNamingBoth) {
  ASSERT_EQ(rank_->Prepare().status(), absl::OkStatus());
  auto run = rank_->Run();
  run->Send(rank_->Train(1, 0, bins_, 3));
  ASSERT_TRUE(run->Receive().has_value());
  rank_->fence.set_term(2);
  auto again = rank_->Run();
  again->Send(rank_->Train(1, 4, bins_, 3));
  EXPECT_FALSE(again->Receive().has_value());
  const grpc::Status status = again->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(status.error_message(),
            "command 1 was train step 0, 1 bins and comes again as train step 4, 1 bins");
}

// A stream answers each of its messages once: that is how it counts those it may still read.
TEST_F(AgentTest, ACommandThatComesTwiceOnOneStreamIsRefused) {
  ASSERT_EQ(rank_->Prepare().status(), absl::OkStatus());
  auto run = rank_->Run();
  run->Send(rank_->Train(1, 0, bins_, 3));
  ASSERT_TRUE(run->Receive().has_value());
  run->Send(rank_->Train(1, 0, bins_, 3));
  EXPECT_FALSE(run->Receive().has_value());
  const grpc::Status status = run->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(status.error_message(), "command 1 came twice on one stream, expected 2");
}

TEST_F(AgentTest, GapInTheSequenceIsRefusedNamingBothValues) {
  ASSERT_EQ(rank_->Prepare().status(), absl::OkStatus());
  auto run = rank_->Run();
  run->Send(rank_->Train(2, 0, bins_, 3));
  EXPECT_FALSE(run->Receive().has_value());
  const grpc::Status status = run->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(status.error_message(), "command sequence number 2, expected 1");
}

// Invariants agent-1 and proto-2.
TEST_F(AgentTest, StaleFencesAreRefusedNamingBothValues) {
  rank_->fence.set_term(5);
  rank_->fence.set_epoch(3);
  ASSERT_EQ(rank_->Prepare().status(), absl::OkStatus());
  const v1::Fence current = rank_->fence;
  const auto refused = [&](const std::string& one, const std::string& other) {
    auto run = rank_->Run();
    run->Send(rank_->Train(1, 0, bins_, 3));
    EXPECT_FALSE(run->Receive().has_value());
    const grpc::Status status = run->Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
    EXPECT_NE(status.error_message().find(one), std::string::npos) << status.error_message();
    EXPECT_NE(status.error_message().find(other), std::string::npos) << status.error_message();
    rank_->fence = current;
  };
  rank_->fence.set_term(4);
  refused("term 4", "term 5");
  rank_->fence.set_epoch(2);
  refused("epoch 2", "epoch 3");
  rank_->fence.set_epoch(4);
  refused("epoch 4", "epoch 3");
  rank_->fence.set_job("job-9");
  refused("job-9", "job-1");
  rank_->fence.set_worker_incarnation("other");
  refused("other", node_->incarnation());
  rank_->fence.set_store("store-b");
  refused("store-b", "store-a");
  rank_->fence.set_plan_hash(std::string(32, 'x'));
  refused(ToHex(std::string(32, 'x')), ToHex(current.plan_hash()));

  rank_->fence.set_epoch(2);
  EXPECT_EQ(rank_->Prepare().status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(rank_->Abort().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(rank_->Release().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(rank_->SaveShard(0, "/tmp").status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ConnectAll({rank_.get()}).code(), absl::StatusCode::kAborted);
  rank_->fence = current;
  EXPECT_EQ(rank_->Inspect().state(), "READY");  // nothing of it had an effect
}

TEST_F(AgentTest, AnEpochThatEndedNeverBeginsAgain) {
  EXPECT_TRUE(rank_->Abort().ok());  // before its Prepare came
  const absl::Status late = rank_->Prepare().status();
  EXPECT_EQ(late.code(), absl::StatusCode::kAborted) << late;
  rank_->fence.set_epoch(2);
  EXPECT_TRUE(rank_->Prepare().ok());
}

// Invariant agent-1. A controller whose store was restored counts from its backup on, under a term
// that no worker has seen.
TEST_F(AgentTest, AHigherTermMayUseTheNumberOfAnEpochAgain) {
  rank_->fence.set_term(6);
  rank_->fence.set_epoch(7);
  ASSERT_EQ(rank_->Prepare().status(), absl::OkStatus());
  TestRank restored(node_.get(), 0, 1, /*epoch=*/7, /*term=*/9);
  EXPECT_TRUE(restored.Abort("the old gang", /*gang_term=*/6).ok());
  EXPECT_TRUE(restored.Abort("its answer was lost", /*gang_term=*/6).ok());
  restored.fence.set_epoch(4);
  ASSERT_EQ(restored.Prepare().status(), absl::OkStatus());
  EXPECT_EQ(restored.Inspect().fence().epoch(), 4u);
  TestRank superseding(node_.get(), 0, 1, /*epoch=*/2, /*term=*/10);
  ASSERT_EQ(superseding.Prepare().status(), absl::OkStatus());
  EXPECT_EQ(superseding.Inspect().fence().epoch(), 2u);
  EXPECT_TRUE(superseding.Abort().ok());
  const absl::Status again = superseding.Prepare().status();
  EXPECT_EQ(again.code(), absl::StatusCode::kAborted) << again;
}

// Invariant agent-1.
TEST_F(AgentTest, AControllerOfAnotherStoreIsRefusedUntilTheGangHasEnded) {
  ASSERT_EQ(rank_->Prepare().status(), absl::OkStatus());
  TestRank other(node_.get(), 0, 1, /*epoch=*/9, /*term=*/99);
  other.fence.set_store("store-b");
  for (const absl::Status& refused : {other.Prepare().status(), other.Abort(), other.Release()}) {
    EXPECT_EQ(refused.code(), absl::StatusCode::kAborted) << refused;
    EXPECT_NE(refused.message().find("store-a"), absl::string_view::npos) << refused;
    EXPECT_NE(refused.message().find("store-b"), absl::string_view::npos) << refused;
  }
  EXPECT_EQ(rank_->Inspect().state(), "READY");
  EXPECT_TRUE(rank_->Abort().ok());  // its term is seen by nobody
  EXPECT_EQ(other.Prepare().status(), absl::OkStatus());
}

TEST_F(AgentTest, NewerEpochSupersedesOlder) {
  ASSERT_EQ(rank_->Prepare().status(), absl::OkStatus());
  TestRank newer(node_.get(), 0, 1, /*epoch=*/2);
  ASSERT_TRUE(newer.Prepare().ok());
  EXPECT_EQ(fake_engine::LiveEngines(), 1);
  EXPECT_EQ(newer.Inspect().fence().epoch(), 2u);
  TestRank other(node_.get(), 0, 1, 1, 1, "job-2");
  const absl::Status busy = other.Prepare().status();
  EXPECT_EQ(busy.code(), absl::StatusCode::kAborted) << busy;
  EXPECT_NE(busy.message().find("job-2"), std::string::npos);
  EXPECT_NE(busy.message().find("job-1"), std::string::npos);
}

// Invariant proto-3.
TEST_F(AgentTest, PrepareRefusesAPlanOfAnotherHash) {
  rank_->fence.set_plan_hash(std::string(32, 'x'));
  const absl::Status status = rank_->Prepare().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find(ToHex(std::string(32, 'x'))), std::string::npos) << status;
  EXPECT_EQ(rank_->Inspect().state(), "IDLE");
}

TEST_F(AgentTest, PrepareRefusesAPlanOfAnotherJob) {
  plan::Plan plan = TestPlan(1);
  plan.job = "job-9";
  v1::PrepareRequest request = rank_->PrepareRequest();
  request.set_plan(plan::SerializePlan(plan));
  request.mutable_fence()->set_plan_hash(plan::PlanHash(request.plan()));
  grpc::ClientContext context;
  v1::PrepareResponse response;
  const absl::Status status = FromGrpc(rank_->stub()->Prepare(&context, request, &response));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "the plan is of job job-9, the fence of job job-1");
  EXPECT_EQ(rank_->Inspect().state(), "IDLE");
}

TEST_F(AgentTest, PrepareReadsTheNonceBack) {
  const support::ScratchFolder folder;
  const std::string path = folder.Write("nonce", "abc");
  const auto prepare = [&](const std::string& file, const std::string& nonce) {
    v1::PrepareRequest request = rank_->PrepareRequest();
    request.set_nonce_path(file);
    request.set_nonce(nonce);
    grpc::ClientContext context;
    v1::PrepareResponse response;
    return FromGrpc(rank_->stub()->Prepare(&context, request, &response));
  };
  const absl::Status other = prepare(path, "other");
  EXPECT_EQ(other.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(other.message().find("abc"), std::string::npos) << "shows what the file holds";
  const absl::Status missing = prepare("/none/nonce", "abc");
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(missing.message().find("/none/nonce"), std::string::npos) << missing;
  EXPECT_TRUE(prepare(path, "abc").ok());
}

TEST_F(AgentTest, EngineErrorOfPrepareIsReturnedAsItIs) {
  fake_engine::SetHooks(
      {.prepare = [](const plan::Plan&,
                     int) { return absl::ResourceExhaustedError("needs 9 bytes, has 8"); },
       .train = {},
       .evaluate = {},
       .snapshot = {}});
  const absl::Status status = rank_->Prepare().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "needs 9 bytes, has 8");  // the controller knows whom it asked
  EXPECT_EQ(rank_->Inspect().state(), "ABORTED");
}

// Invariant agent-4.
TEST_F(AgentTest, FailureIsReportedOnceAndEndsTheEpoch) {
  fake_engine::SetHooks({.prepare = {},
                         .train =
                             [](int, int64_t step, const std::function<bool()>&) {
                               return step == 1
                                          ? absl::FailedPreconditionError("group lora_b is frozen")
                                          : absl::OkStatus();
                             },
                         .evaluate = {},
                         .snapshot = {}});
  ASSERT_EQ(rank_->Prepare().status(), absl::OkStatus());
  auto run = rank_->Run();
  for (uint64_t seq = 1; seq <= 3; ++seq) run->Send(rank_->Train(seq, seq - 1, bins_, 3));
  EXPECT_TRUE(run->Receive()->has_done());
  const auto failed = run->Receive();
  ASSERT_TRUE(failed.has_value());
  ASSERT_TRUE(failed->has_failed());
  EXPECT_EQ(failed->seq(), 2u);
  EXPECT_EQ(failed->failed().code(), "FAILED_PRECONDITION");
  EXPECT_EQ(failed->failed().kind(), v1::ERROR_KIND_USER);
  EXPECT_EQ(failed->failed().rank(), 0);
  EXPECT_FALSE(failed->failed().host().empty());
  EXPECT_EQ(failed->failed().phase(), "train");
  EXPECT_FALSE(run->Receive().has_value());  // command 3 was not run
  EXPECT_EQ(rank_->Inspect().state(), "ABORTED");
  EXPECT_TRUE(Eventually([] { return fake_engine::LiveEngines() == 0; }));
  EXPECT_TRUE(rank_->Abort().ok());
  rank_->fence.set_epoch(2);
  EXPECT_TRUE(rank_->Prepare().ok());
}

TEST_F(AgentTest, MalformedBinsFailTheCommandAsASystemErrorAndTokensAsTheJobs) {
  v1::Bins malformed = OneBin(0, {1, 2});
  malformed.mutable_token_ids()->pop_back();
  const struct {
    v1::Bins bins;
    v1::ErrorKind kind;
    const char* named;
  } cases[] = {
      {malformed, v1::ERROR_KIND_SYSTEM, "malformed command 1: bins: 7 bytes of token_ids"},
      {OneBin(0, {1, 1000}), v1::ERROR_KIND_USER, "token_ids[1] is 1000, the vocabulary has 1000"},
  };
  for (const auto& each : cases) {
    ASSERT_EQ(rank_->Prepare().status(), absl::OkStatus());
    auto run = rank_->Run();
    run->Send(rank_->Train(1, 0, each.bins, 3));
    const auto event = run->Receive();
    ASSERT_TRUE(event.has_value() && event->has_failed());
    EXPECT_EQ(event->failed().kind(), each.kind);
    EXPECT_NE(event->failed().message().find(each.named), std::string::npos)
        << event->failed().message();
    EXPECT_TRUE(rank_->Abort().ok());
    rank_->fence.set_epoch(rank_->fence.epoch() + 1);
  }
}

TEST_F(AgentTest, RunBeforeConnectIsRefusedInAGang) {
  TestRank two(node_.get(), 0, 2);
  ASSERT_TRUE(two.Prepare().ok());
  auto run = two.Run();
  run->Send(two.Train(1, 0, bins_, 3));
  EXPECT_FALSE(run->Receive().has_value());
  EXPECT_EQ(run->Finish().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

// Invariant agent-5.
TEST_F(AgentTest, InspectAnswersWhileAStepRuns) {
  Valve valve;
  ASSERT_EQ(rank_->Prepare().status(), absl::OkStatus());
  auto run = rank_->Run();
  run->Send(rank_->Train(1, 0, bins_, 3));
  ASSERT_TRUE(Eventually([&] { return valve.entered == 1; }));
  v1::WorkerInspectResponse live = rank_->Inspect();
  EXPECT_EQ(live.state(), "RUNNING");
  EXPECT_EQ(live.last_step(), -1);
  EXPECT_EQ(live.memory().peak(), 1950u);
  EXPECT_EQ(live.memory().host(), 70u);
  EXPECT_EQ(live.choices(), "attention: fake");
  EXPECT_FALSE(live.host().empty());
  EXPECT_TRUE(Eventually([&] {
    const auto beat = registry_.last_beat();
    return beat && beat->last_queued_seq() == 1 && beat->last_done_seq() == 0;
  }));
  valve.open = true;
  ASSERT_TRUE(run->Receive().has_value());
  live = rank_->Inspect();
  EXPECT_EQ(live.last_step(), 0);
  EXPECT_DOUBLE_EQ(live.last_loss_sum(), 0.018);
  EXPECT_EQ(live.last_targets(), 3);
  EXPECT_EQ(live.last_tokens(), 4);
  EXPECT_GT(live.tokens_per_second(), 0);
  EXPECT_EQ(live.last_done_seq(), 1u);
  EXPECT_EQ(live.last_bin_ids(0), 7);
}

// Invariant agent-6.
TEST_F(AgentTest, AbortInTheMiddleOfACommandDropsTheEngine) {
  Valve valve;
  ASSERT_EQ(rank_->Prepare().status(), absl::OkStatus());
  auto run = rank_->Run();
  run->Send(rank_->Train(1, 0, bins_, 3));
  run->Send(rank_->Train(2, 1, bins_, 3));
  ASSERT_TRUE(Eventually([&] { return valve.entered == 1; }));
  EXPECT_TRUE(rank_->Abort("another rank died").ok());
  EXPECT_EQ(fake_engine::LiveEngines(), 0);
  EXPECT_EQ(rank_->Inspect().state(), "IDLE");
  EXPECT_FALSE(run->Receive().has_value());  // no event of an epoch that ended
  const grpc::Status status = run->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_NE(status.error_message().find("another rank died"), std::string::npos);
  EXPECT_EQ(valve.entered, 1);
  EXPECT_TRUE(rank_->Abort().ok());  // idempotent
}

TEST_F(AgentTest, LostDeviceEndsTheProcess) {
  std::promise<std::pair<int, std::string>> exited;
  fake_engine::SetHooks({.prepare = {},
                         .train =
                             [](int, int64_t, const std::function<bool()>&) {
                               absl::Status lost = absl::InternalError("step 0: illegal address");
                               lost.SetPayload(engine::kDeviceLost, absl::Cord());
                               return lost;
                             },
                         .evaluate = {},
                         .snapshot = {}});
  WorkerOptions options = TestOptions(registry_, 1);
  options.exit = [&](int code, const std::string& why) { exited.set_value({code, why}); };
  auto node = WorkerNode::Start(options);
  ASSERT_TRUE(node.ok()) << node.status();
  TestRank rank(node->get(), 0, 1);
  ASSERT_TRUE(rank.Prepare().ok());
  auto run = rank.Run();
  run->Send(rank.Train(1, 0, bins_, 3));
  const auto [code, why] = exited.get_future().get();
  EXPECT_EQ(code, kExitDeviceLost);
  EXPECT_EQ(why, "step 0: illegal address");
}

TEST_F(AgentTest, AbortDeadlineEndsTheProcess) {
  std::promise<int> exited;
  std::atomic<bool> hang{true};
  std::atomic<int> entered{0};
  fake_engine::SetHooks({.prepare = {},
                         .train =
                             [&](int, int64_t, const std::function<bool()>&) {
                               ++entered;
                               Eventually([&] { return !hang; });
                               return absl::OkStatus();
                             },
                         .evaluate = {},
                         .snapshot = {}});
  WorkerOptions options = TestOptions(registry_, 1);
  options.abort_deadline = std::chrono::milliseconds(50);
  options.exit = [&](int code, const std::string&) { exited.set_value(code); };
  auto node = WorkerNode::Start(options);
  ASSERT_TRUE(node.ok()) << node.status();
  TestRank rank(node->get(), 0, 1);
  ASSERT_TRUE(rank.Prepare().ok());
  auto run = rank.Run();
  run->Send(rank.Train(1, 0, bins_, 3));
  ASSERT_TRUE(Eventually([&] { return entered == 1; }));
  auto aborted = std::async(std::launch::async, [&] { return rank.Abort(); });
  EXPECT_EQ(exited.get_future().get(), kExitAbortDeadline);
  hang = false;
  EXPECT_TRUE(aborted.get().ok());
}

TEST_F(AgentTest, AbortDuringPrepareDropsItsResult) {
  std::atomic<bool> go{false};
  std::atomic<int> entered{0};
  fake_engine::SetHooks({.prepare =
                             [&](const plan::Plan&, int) {
                               ++entered;
                               Eventually([&] { return go.load(); });
                               return absl::OkStatus();
                             },
                         .train = {},
                         .evaluate = {},
                         .snapshot = {}});
  auto prepared = std::async(std::launch::async, [&] { return rank_->Prepare().status(); });
  ASSERT_TRUE(Eventually([&] { return entered == 1; }));
  EXPECT_EQ(rank_->Inspect().state(), "PREPARING");
  EXPECT_TRUE(rank_->Abort().ok());  // does not wait for the weights
  go = true;
  EXPECT_EQ(prepared.get().code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(Eventually([] { return fake_engine::LiveEngines() == 0; }));
}

TEST_F(AgentTest, SnapshotAndShardCarryTheStateToAResume) {
  const support::ScratchFolder folder;
  const std::string& dir = folder.path();
  ASSERT_EQ(rank_->Prepare().status(), absl::OkStatus());
  auto run = rank_->Run();
  run->Send(rank_->Train(1, 0, bins_, 3));
  v1::Command snapshot = rank_->Command(2);
  snapshot.mutable_snapshot()->set_step(1);
  run->Send(snapshot);
  run->Send(rank_->Train(3, 1, bins_, 3));
  ASSERT_TRUE(run->Receive().has_value());
  ASSERT_TRUE(run->Receive()->has_done());
  EXPECT_EQ(rank_->SaveShard(2, dir).status().code(), absl::StatusCode::kFailedPrecondition);
  const auto saved = rank_->SaveShard(1, dir);
  ASSERT_TRUE(saved.ok()) << saved.status();
  ASSERT_EQ(saved->files_size(), 1);
  EXPECT_EQ(saved->files(0).block_digests(),
            DigestsOf(ReadFile(dir + "/" + saved->files(0).name()).value()).digests);
  run->Receive();
  ASSERT_TRUE(rank_->Release().ok());
  rank_->fence.set_epoch(2);
  const auto resumed = rank_->Prepare(dir);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(resumed->start_step(), 1);
  EXPECT_EQ(resumed->applied_updates(), 1);
}

// A checkpoint is written beside the steps, and goes with its epoch.
TEST_F(AgentTest, StepsGoOnWhileAShardIsBeingWritten) {
  const support::ScratchFolder folder;
  std::atomic<bool> saving{false};
  fake_engine::SetHooks({.prepare = {},
                         .train = {},
                         .evaluate = {},
                         .snapshot = {},
                         .save = [&](int, const std::function<bool()>& cancelled) {
                           saving = true;
                           Eventually(cancelled);
                           return absl::CancelledError("cancelled");
                         }});
  ASSERT_EQ(rank_->Prepare().status(), absl::OkStatus());
  auto run = rank_->Run();
  v1::Command snapshot = rank_->Command(1);
  snapshot.mutable_snapshot()->set_step(0);
  run->Send(snapshot);
  ASSERT_TRUE(run->Receive()->has_done());
  auto saved =
      std::async(std::launch::async, [&] { return rank_->SaveShard(0, folder.path()).status(); });
  ASSERT_TRUE(Eventually([&] { return saving.load(); }));
  run->Send(rank_->Train(2, 0, bins_, 3));
  EXPECT_TRUE(run->Receive()->has_done());
  ASSERT_TRUE(rank_->Abort().ok());
  EXPECT_EQ(saved.get().code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(Eventually([] { return fake_engine::LiveEngines() == 0; }));
}

TEST_F(AgentTest, EvalRunsOnEmptyBinsToo) {
  ASSERT_EQ(rank_->Prepare().status(), absl::OkStatus());
  auto run = rank_->Run();
  v1::Command eval = rank_->Command(1);
  *eval.mutable_eval()->mutable_bins() = bins_;
  run->Send(eval);
  eval = rank_->Command(2);
  eval.mutable_eval();
  run->Send(eval);
  EXPECT_DOUBLE_EQ(run->Receive()->done().loss_sum(), 0.018);
  const auto empty = run->Receive();
  ASSERT_TRUE(empty->has_done());
  EXPECT_EQ(empty->done().tokens(), 0);
}

TEST_F(AgentTest, ReleaseFinishesWhatWasQueued) {
  Valve valve;
  ASSERT_EQ(rank_->Prepare().status(), absl::OkStatus());
  auto run = rank_->Run();
  run->Send(rank_->Train(1, 0, bins_, 3));
  ASSERT_TRUE(Eventually([&] { return valve.entered == 1; }));
  auto released = std::async(std::launch::async, [&] { return rank_->Release(); });
  valve.open = true;
  EXPECT_EQ(run->Receive()->seq(), 1u);
  EXPECT_TRUE(released.get().ok());
}

// Invariant agent-5.
TEST_F(AgentTest, DumpShowsWhatRunsAndWhatWaitsAndTheDevice) {
  Valve valve;
  ASSERT_EQ(rank_->Prepare().status(), absl::OkStatus());
  auto run = rank_->Run();
  run->Send(rank_->Train(1, 0, bins_, 3));
  run->Send(rank_->Train(2, 1, bins_, 3));
  ASSERT_TRUE(Eventually([&] { return valve.entered == 1; }));
  nlohmann::json dump;
  EXPECT_TRUE(Eventually([&] {
    grpc::ClientContext context;
    v1::WorkerDumpResponse response;
    if (!rank_->stub()->Dump(&context, v1::WorkerDumpRequest(), &response).ok()) return false;
    dump = nlohmann::json::parse(response.json());
    return dump["waiting"].size() == 2;
  }));
  EXPECT_TRUE(dump["commands"].empty());
  EXPECT_EQ(dump["waiting"][0]["seq"], 1);
  EXPECT_EQ(dump["waiting"][0]["command"], "train step 0, 1 bins");
  EXPECT_GT(dump["waiting"][0]["begun_unix_ms"], 0);
  EXPECT_EQ(dump["waiting"][1]["begun_unix_ms"], 0);
  EXPECT_GT(dump["device"]["resident_bytes"], 1'000'000);
  EXPECT_FALSE(dump["device"].contains("gpu"));
  valve.open = true;
  EXPECT_TRUE(run->Receive()->has_done());
  EXPECT_TRUE(run->Receive()->has_done());
}

TEST(DeviceStateTest, AGpuThatCannotBeAskedIsTold) {
  const nlohmann::json state = DeviceState("ffff:ff:1f.0", std::chrono::milliseconds(5000));
  EXPECT_FALSE(state["gpu"]["problem"].get<std::string>().empty()) << state;
  EXPECT_GT(state["most_resident_bytes"], 0);
}

TEST_F(AgentTest, DumpShowsTheLastCommandsAlsoAfterAFailure) {
  ASSERT_EQ(rank_->Prepare().status(), absl::OkStatus());
  auto run = rank_->Run();
  for (uint64_t seq = 1; seq <= 300; ++seq) {
    run->Send(rank_->Train(seq, seq - 1, bins_, 3));
    ASSERT_TRUE(run->Receive().has_value());
  }
  run->Send(rank_->Train(301, 300, OneBin(0, {-1, 2}), 3));
  ASSERT_TRUE(run->Receive()->has_failed());
  grpc::ClientContext context;
  v1::WorkerDumpResponse response;
  ASSERT_TRUE(rank_->stub()->Dump(&context, v1::WorkerDumpRequest(), &response).ok());
  const auto dump = nlohmann::json::parse(response.json());
  EXPECT_EQ(dump["state"], "ABORTED");
  ASSERT_EQ(dump["commands"].size(), 256u);
  EXPECT_EQ(dump["commands"][0]["seq"], 46);
  EXPECT_EQ(dump["commands"][255]["event"]["code"], "OUT_OF_RANGE");
  EXPECT_GT(dump["commands"][0]["queued_unix_ms"], 1'600'000'000'000);
  EXPECT_GE(dump["commands"][0]["begun_unix_ms"], dump["commands"][0]["queued_unix_ms"]);
  EXPECT_TRUE(dump["waiting"].empty());
  EXPECT_EQ(dump["memory"]["weights"], 1000);
}

}  // namespace
}  // namespace coxswain::agent
