// A session over fake workers, with a program of plain answers: it knows nothing of training.
#include "controller/gang/gang_session.h"

#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include "tests/sim/fakes/fake_workers.h"
#include "tests/sim/fakes/virtual_clock.h"

namespace coxswain::gang {
namespace {

// Asks for so many snapshots of nothing, one at a time or as credits allow, then stops.
class Snapshots : public Program {
 public:
  explicit Snapshots(int count) : count_(count) {}

  std::optional<Order> Next() override {
    if (sent_ < count_) {
      Order order{.turn = Turn::kStep, .phase = "snapshot", .step = sent_++};
      most_ = std::max(most_, sent_ - taken_);
      order.command.mutable_snapshot()->set_step(0);
      return order;
    }
    if (taken_ < sent_ || holds_) return std::nullopt;
    return StopOrder(sent_);
  }
  bool MayGoAhead() const override { return true; }
  std::optional<v1::Error> Take(const InFlight& command) override {
    EXPECT_EQ(command.step, taken_);
    ++taken_;
    if (command.step != fails_at_) return std::nullopt;
    return failure::MakeBug(absl::InternalError("does not add up"), {.phase = "snapshot"});
  }
  void Drain(bool) override { count_ = sent_; }
  bool saving() const override { return false; }
  int64_t Boundary() const override { return sent_; }
  std::optional<ProgramPosition> Position() const override { return std::nullopt; }
  bool complete() const override { return true; }
  bool exports() const override { return false; }
  const char* Ending() const override { return ""; }

  int count_, sent_ = 0, taken_ = 0;
  int most_ = 0;  // in flight
  int64_t fails_at_ = -1;
  bool holds_ = false;  // the stop
};

Settings PatientSettings() {
  Settings settings;
  settings.hang_floor = std::chrono::milliseconds(50'000);
  return settings;
}

class GangSessionTest : public testing::Test {
 protected:
  GangSessionTest() {
    workers_.Connect(&loop_);
    Gang gang;
    gang.job = "job";
    gang.term = 1;
    for (int slot = 0; slot < 2; ++slot) {
      workers_.Start(slot);
      EXPECT_TRUE(registry_.Register(workers_.Hello(slot)).ok());
      registry_.Beat(workers_.Beat(slot), 1);
      incarnations_.push_back(workers_.Hello(slot).incarnation());
      gang.ranks.push_back({.target = registry_.Find(incarnations_[slot])->target, .host = "sim"});
    }
    EXPECT_TRUE(registry_.Reserve(incarnations_, "job").ok());
    registry_.Lead("store", 1);
    EXPECT_TRUE(files_.MakeDirs("/out").ok());
    session_ = std::make_shared<GangSession>(
        Deps{.loop = &loop_,
             .files = &files_,
             .transport = &workers_,
             .fan_out = &fan_out_,
             .registry = &registry_,
             .metrics = &metrics_,
             .settings = PatientSettings()},
        std::move(gang),
        SessionEvents{.formed = [this] { ++formed_; },
                      .stepped = [this] { ++stepped_; },
                      .suspected = [this](const v1::Error&) { ++suspected_; },
                      .failed = [this](const v1::Error& error) { failed_.push_back(error); },
                      .ended = [this] { ++ended_; }});
  }

  void Form() {
    session_->Number(1, std::string(32, 'p'), "plan", 0);
    session_->Form({.output_dir = "/out", .checkpoint_dir = "", .tokens = {}});
    ASSERT_TRUE(Until([&] { return formed_ == 1; }));
  }
  // Workers beat while time passes; false: not within a minute.
  bool Until(const std::function<bool()>& done, int64_t ms = 60'000) {
    const int64_t end_ns = clock_.NowNs() + ms * 1'000'000;
    int64_t beat_ns = clock_.NowNs();
    while (!done()) {
      if (loop_.RunReady()) continue;
      if (clock_.NowNs() >= end_ns) return false;
      if (clock_.NowNs() >= beat_ns) {
        for (int slot = 0; slot < 2; ++slot) {
          if (workers_.reachable(slot)) registry_.Beat(workers_.Beat(slot), 1);
        }
        beat_ns += 1'000'000'000;
      }
      clock_.AdvanceTo(std::min({agenda_.NextNs(), loop_.NextTimerNs(), beat_ns, end_ns}));
      agenda_.RunDue();
    }
    return true;
  }
  bool Free(int slot) {
    return registry_.Find(incarnations_[slot])->status.phase == state::WorkerPhase::kReady;
  }

  sim::VirtualClock clock_;
  Loop loop_{&clock_, Loop::Offloading::kInline};
  sim::Agenda agenda_{&clock_};
  sim::MemoryFiles files_;
  sim::FakeWorkers workers_{&agenda_, &files_, 1};
  scheduler::Registry registry_{&loop_, &workers_, {}};
  FanOut fan_out_{0};
  Metrics metrics_{std::make_shared<prometheus::Registry>()};
  std::vector<std::string> incarnations_;
  std::shared_ptr<GangSession> session_;
  int formed_ = 0, stepped_ = 0, suspected_ = 0, ended_ = 0;
  std::vector<v1::Error> failed_;
};

// Invariant gang-1.
TEST_F(GangSessionTest, TakesAProgramToItsEndAndFreesItsRanks) {
  Form();
  auto program = std::make_shared<Snapshots>(5);
  session_->Run(program);
  ASSERT_TRUE(Until([&] { return ended_ == 1; }));
  EXPECT_EQ(program->taken_, 5);
  EXPECT_EQ(stepped_, 5);
  GangSession::Release(std::move(session_));
  EXPECT_TRUE(Until([&] { return Free(0) && Free(1); }));
  EXPECT_TRUE(failed_.empty());
}

// Invariant gang-1.
class GangSessionWindowTest : public GangSessionTest,
                              public testing::WithParamInterface<std::pair<int64_t, int>> {};

TEST_P(GangSessionWindowTest, TwoCommandsAreInFlightOrOneAndAHalfSecondsOfWork) {
  const auto [step_ms, most] = GetParam();
  sim::Network network;
  network.step_ms = step_ms;
  workers_.set_network(network);
  Form();
  auto program = std::make_shared<Snapshots>(10);
  session_->Run(program);
  ASSERT_TRUE(Until([&] { return ended_ == 1; }));
  EXPECT_EQ(program->most_, most);
}

INSTANTIATE_TEST_SUITE_P(Steps, GangSessionWindowTest,
                         testing::Values(std::pair<int64_t, int>{40, 8},
                                         std::pair<int64_t, int>{700, 4},
                                         std::pair<int64_t, int>{5000, 2}));

TEST_F(GangSessionTest, WhatTheProgramRefusesEndsTheAttemptAtOnce) {
  Form();
  auto program = std::make_shared<Snapshots>(5);
  program->fails_at_ = 2;
  session_->Run(program);
  ASSERT_TRUE(Until([&] { return !failed_.empty(); }));
  EXPECT_EQ(failed_[0].kind(), v1::ERROR_KIND_BUG);
  EXPECT_EQ(stepped_, 2);
  Until([] { return false; }, 5000);
  EXPECT_EQ(failed_.size(), 1u);
  EXPECT_EQ(ended_, 0);
}

TEST_F(GangSessionTest, AGoneRankIsSuspectedFirstAndItsOwnerConcludes) {
  Form();
  auto program = std::make_shared<Snapshots>(1000);
  session_->Run(program);
  ASSERT_TRUE(Until([&] { return stepped_ == 3; }));
  workers_.Kill(1);
  ASSERT_TRUE(Until([&] { return suspected_ > 0; }));
  EXPECT_TRUE(failed_.empty());  // the other rank may say more
  session_->Conclude();
  ASSERT_EQ(failed_.size(), 1u);
  EXPECT_EQ(failed_[0].rank(), 1);
  session_->Conclude();
  EXPECT_EQ(failed_.size(), 1u);
}

TEST_F(GangSessionTest, AWorkerThatIsLostBeforeItRunsFailsTheGang) {
  session_->WorkerLost("another", "gone");
  EXPECT_TRUE(failed_.empty());
  session_->WorkerLost(incarnations_[1], "gone");
  ASSERT_EQ(failed_.size(), 1u);
  EXPECT_EQ(failed_[0].rank(), 1);
  EXPECT_EQ(failed_[0].phase(), "form");
}

// Invariant gang-2.
TEST_F(GangSessionTest, AnAbortedSessionSaysNothingMoreAndItsRanksAreFreeWhenTheySaySo) {
  Form();
  session_->Run(std::make_shared<Snapshots>(1000));
  ASSERT_TRUE(Until([&] { return stepped_ == 3; }));
  GangSession::Abort(std::move(session_), "a test");
  EXPECT_FALSE(Free(0));
  const int before = stepped_;
  EXPECT_TRUE(Until([&] { return Free(0) && Free(1); }));
  EXPECT_EQ(stepped_, before);
  EXPECT_EQ(suspected_ + ended_, 0);
}

TEST_F(GangSessionTest, RanksThatWereNeverToldAreFreeAtOnce) {
  GangSession::Abort(std::move(session_), "a test");
  EXPECT_TRUE(Free(0) && Free(1));
}

// Invariant gang-3.
TEST_F(GangSessionTest, ADestroyedSessionTellsItsRanksNothing) {
  Form();
  session_->Run(std::make_shared<Snapshots>(1000));
  ASSERT_TRUE(Until([&] { return stepped_ == 3; }));
  session_.reset();
  Until([] { return false; }, 5000);
  EXPECT_TRUE(workers_.Hello(0).has_current());  // it waits for a controller
  EXPECT_EQ(suspected_ + ended_, 0);
}

TEST_F(GangSessionTest, ADrainThatTakesTooLongIsGivenUpAndASecondOneBeginsTheTimeAgain) {
  Form();
  auto program = std::make_shared<Snapshots>(1000);
  session_->Run(program);
  ASSERT_TRUE(Until([&] { return stepped_ == 3; }));
  for (int slot = 0; slot < 2; ++slot) workers_.Hang(slot);
  session_->Drain(/*with_checkpoint=*/true);
  Until([] { return false; }, 5000);
  session_->Drain(/*with_checkpoint=*/false);
  Until([] { return false; }, 26'000);
  EXPECT_TRUE(failed_.empty());
  ASSERT_TRUE(Until([&] { return !failed_.empty(); }, 5000));
  EXPECT_NE(failed_[0].message().find("30000 ms"), std::string::npos) << failed_[0].message();
}

TEST_F(GangSessionTest, ASilentGangIsTakenForAHangAndTheCommandNamed) {
  Form();
  session_->Run(std::make_shared<Snapshots>(1000));
  ASSERT_TRUE(Until([&] { return stepped_ == 3; }));
  for (int slot = 0; slot < 2; ++slot) workers_.Hang(slot);
  ASSERT_TRUE(Until([&] { return !failed_.empty(); }));
  EXPECT_NE(failed_[0].message().find("taken for a hang"), std::string::npos);
  EXPECT_EQ(failed_[0].phase(), "snapshot");
}

}  // namespace
}  // namespace coxswain::gang
