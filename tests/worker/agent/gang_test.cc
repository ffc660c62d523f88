// Two and three workers as one gang, real Gloo between them, over the relay of Connect.
#include <signal.h>

#include <chrono>
#include <mutex>

#include <gtest/gtest.h>

#include "tests/support/eventually.h"
#include "tests/worker/agent/fake_engine.h"
#include "tests/worker/agent/test_gang.h"

namespace coxswain::agent {
namespace {

using support::Eventually;
using support::kTestDeadline;

class GangTest : public testing::Test {
 protected:
  GangTest() { signal(SIGPIPE, SIG_IGN); }  // as a worker's main does
  void Form(int world, bool connect = true) {
    for (int r = 0; r < world; ++r) {
      nodes_.push_back(std::move(WorkerNode::Start(TestOptions(registry_, r)).value()));
      ranks_.push_back(std::make_unique<TestRank>(nodes_.back().get(), r, world));
      all_.push_back(ranks_.back().get());
      ASSERT_EQ(all_.back()->Prepare().status(), absl::OkStatus());
    }
    if (!connect) return;
    ASSERT_EQ(ConnectAll(all_), absl::OkStatus());
  }
  ~GangTest() override {
    fake_engine::SetHooks({});
    ranks_.clear();
    nodes_.clear();
  }

  TestRegistry registry_;
  std::vector<std::unique_ptr<WorkerNode>> nodes_;
  std::vector<std::unique_ptr<TestRank>> ranks_;
  std::vector<TestRank*> all_;
};

TEST_F(GangTest, RanksAgreeOnTheGlobalSumsBitForBit) {
  Form(3);
  const std::vector<v1::Bins> bins = {OneBin(0, {1, 2, 3}), OneBin(1, {10, 20}),
                                      OneBin(2, {7, 7, 7, 7})};
  const int64_t denominator = Targets(bins[0]) + Targets(bins[1]) + Targets(bins[2]);
  std::vector<std::unique_ptr<RunStreamClient>> runs;
  for (int r = 0; r < 3; ++r) {
    runs.push_back(all_[r]->Run());
    for (int step = 0; step < 5; ++step) {
      runs[r]->Send(all_[r]->Train(step + 1, step, bins[r], denominator));
    }
  }
  for (int step = 0; step < 5; ++step) {
    const auto first = runs[0]->Receive();
    ASSERT_TRUE(first && first->has_done());
    // (2 + 3) + 11 + (8 + 8 + 8) over 6 targets.
    EXPECT_DOUBLE_EQ(first->done().grad_norm(), 40 / 6.0);
    double losses = first->done().loss_sum();
    for (int r = 1; r < 3; ++r) {
      const auto other = runs[r]->Receive();
      ASSERT_TRUE(other && other->has_done());
      EXPECT_EQ(other->done().grad_norm(), first->done().grad_norm());
      EXPECT_EQ(other->done().global_loss_sum(), first->done().global_loss_sum());
      losses += other->done().loss_sum();
    }
    EXPECT_EQ(first->done().global_loss_sum(), losses);
  }
  for (TestRank* rank : all_) EXPECT_TRUE(rank->Release().ok());
}

// Bits depend on the choices: the ranks of a gang make the same.
TEST_F(GangTest, RanksTakeTheGemmTableOfRankZero) {
  std::mutex mu;
  std::vector<std::string> used;
  const auto so_far = [&] {
    std::lock_guard<std::mutex> lock(mu);
    return used;
  };
  fake_engine::SetHooks({.use_gemm_table = [&](const std::string& table) {
    std::lock_guard<std::mutex> lock(mu);
    used.push_back(table);
  }});
  Form(2, /*connect=*/false);
  EXPECT_EQ(so_far(), std::vector<std::string>());
  v1::PrepareRequest request = all_[0]->PrepareRequest();
  request.mutable_fence()->set_epoch(2);
  request.set_gemm_table("of the last gang");
  for (TestRank* rank : all_) {
    request.mutable_fence()->set_worker_incarnation(rank->fence.worker_incarnation());
    request.set_rank(rank->rank);
    grpc::ClientContext context;
    v1::PrepareResponse response;
    ASSERT_TRUE(rank->stub()->Prepare(&context, request, &response).ok());
    EXPECT_EQ(response.gemm_table(), rank->rank == 0 ? "table of rank 0" : "");
    rank->fence = request.fence();
  }
  EXPECT_EQ(so_far(), (std::vector<std::string>{"of the last gang", "of the last gang"}));
  ASSERT_EQ(ConnectAll(all_, "table of rank 0"), absl::OkStatus());
  const std::vector<std::string> after = so_far();
  ASSERT_EQ(after.size(), 3u) << "rank 0 made these choices itself";
  EXPECT_EQ(after[2], "table of rank 0");
}

// The half of the fingerprint that only ranks which found each other know.
TEST_F(GangTest, ConnectTellsWhatAddsUp) {
  Form(2);
  for (const TestRank* rank : all_) EXPECT_EQ(rank->group_fingerprint, "transport=gloo");
}

TEST_F(GangTest, DeathOfARankFailsTheOthersNamingTheCollective) {
  Form(2);
  const v1::Bins bins = OneBin(0, {1, 2});
  auto run = all_[0]->Run();
  run->Send(all_[0]->Train(1, 0, bins, 2));  // waits for rank 1
  ASSERT_TRUE(Eventually([&] { return all_[0]->Inspect().state() == "RUNNING"; }));
  nodes_[1].reset();
  const auto event = run->Receive();
  ASSERT_TRUE(event && event->has_failed());
  EXPECT_EQ(event->failed().code(), "UNAVAILABLE");
  EXPECT_EQ(event->failed().kind(), v1::ERROR_KIND_SYSTEM);
  EXPECT_NE(event->failed().message().find("all_reduce"), std::string::npos)
      << event->failed().message();
}

// Invariant agent-6: the engine's collective is woken, within the deadline.
TEST_F(GangTest, AbortWakesARankThatWaitsForAnother) {
  Form(2);
  auto run = all_[0]->Run();
  run->Send(all_[0]->Train(1, 0, OneBin(0, {1, 2}), 2));
  ASSERT_TRUE(Eventually([&] { return all_[0]->Inspect().state() == "RUNNING"; }));
  EXPECT_TRUE(all_[0]->Abort("rank 1 hangs").ok());
  EXPECT_TRUE(all_[1]->Abort("rank 1 hangs").ok());
  EXPECT_EQ(fake_engine::LiveEngines(), 0);
  for (TestRank* rank : all_) rank->fence.set_epoch(2);
  for (TestRank* rank : all_) ASSERT_EQ(rank->Prepare().status(), absl::OkStatus());
  EXPECT_EQ(ConnectAll(all_), absl::OkStatus());  // the same processes form again
}

TEST_F(GangTest, AbortWakesFormation) {
  Form(2, /*connect=*/false);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kTestDeadline);
  auto stream = all_[0]->stub()->Connect(&context);
  v1::ConnectRequest hello;
  *hello.mutable_fence() = all_[0]->fence;
  stream->Write(hello);
  v1::ConnectResponse response;
  ASSERT_TRUE(stream->Read(&response));  // its keys are out: it waits for those of rank 1
  ASSERT_TRUE(response.has_set());
  EXPECT_TRUE(all_[0]->Abort("rank 1 is gone").ok());
  EXPECT_EQ(all_[0]->Inspect().state(), "IDLE");
  while (stream->Read(&response) && !response.has_done()) {
  }
  EXPECT_TRUE(response.done().has_error());
}

}  // namespace
}  // namespace coxswain::agent
