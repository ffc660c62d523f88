#include "controller/failure/recovery.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/sim/fakes/virtual_clock.h"

namespace coxswain::failure {
namespace {

using E = state::RecoveryEvent;
using S = state::RecoveryStage;
using std::chrono::milliseconds;

class RecoveryTest : public testing::Test {
 protected:
  // Lets so much time pass, timer by timer.
  void Run(int64_t ms) {
    const int64_t end_ns = clock_.NowNs() + ms * 1'000'000;
    while (true) {
      while (loop_.RunReady()) {
      }
      if (loop_.NextTimerNs() > end_ns) break;
      clock_.AdvanceTo(loop_.NextTimerNs());
    }
    clock_.AdvanceTo(end_ns);
    while (loop_.RunReady()) {
    }
  }

  sim::VirtualClock clock_;
  Loop loop_{&clock_, Loop::Offloading::kInline};
  std::string told_;
  int tries_ = 0, kept_ = 0;
  Recovery recovery_{&loop_,
                     {},
                     {.entered =
                          [this](S stage, milliseconds limit) {
                            absl::StrAppend(&told_, std::string(state::StageName(stage)), " ",
                                            limit.count(), ", ");
                          },
                      .time_over = [this](S) { recovery_.Happened(E::kDeadline); },
                      .try_again = [this] { ++tries_; },
                      .kept = [this] { ++kept_; }}};
};

// Invariant failure-2.
TEST_F(RecoveryTest, EveryStageHasItsTimeAndTheLastHasNone) {
  recovery_.Happened(E::kSuspected);
  recovery_.Happened(E::kUnexplained);
  recovery_.Keep();
  Run(2000 + 20000 + 10000 + 30000);
  EXPECT_EQ(recovery_.stage(), S::kReplace);
  EXPECT_TRUE(recovery_.Keeps());
  Run(3'600'000);
  EXPECT_EQ(recovery_.stage(), S::kRequeue);
  EXPECT_FALSE(recovery_.Keeps());
  EXPECT_EQ(told_,
            "suspect 1000, dump 2000, abort 20000, kill 10000, respawn 30000, replace 538000, "
            "requeue 0, ");
}

TEST_F(RecoveryTest, WhatIsPlacedOrStoppedHasNoMoreDeadlines) {
  for (const E end : {E::kPlaced, E::kStopped}) {
    recovery_.Happened(E::kSuspected);
    recovery_.Happened(E::kExplained);
    recovery_.Happened(E::kFreed);
    recovery_.Happened(end);
    Run(3'600'000);
    EXPECT_EQ(recovery_.stage(), S::kNone);
  }
}

TEST_F(RecoveryTest, TheDeadlineOfAStageThatIsOverEndsNoOther) {
  recovery_.Happened(E::kSuspected);
  recovery_.Happened(E::kExplained);
  recovery_.Happened(E::kFreed);
  Run(29'000);
  recovery_.Happened(E::kPlaced);
  recovery_.Happened(E::kSuspected);
  recovery_.Happened(E::kUnexplained);
  Run(1500);  // respawn was to end after 30 s
  EXPECT_EQ(recovery_.stage(), S::kDump);
}

TEST_F(RecoveryTest, AnEventOutOfOrderChangesNothing) {
  recovery_.Happened(E::kFreed);
  EXPECT_EQ(recovery_.stage(), S::kNone);
  recovery_.Happened(E::kSuspected);
  recovery_.Happened(E::kPlaced);
  EXPECT_EQ(recovery_.stage(), S::kSuspect);
}

TEST_F(RecoveryTest, AStallOfTheLoopTakesNoTimeFromAStage) {
  recovery_.Happened(E::kSuspected);
  recovery_.Happened(E::kUnexplained);
  loop_.After(milliseconds(1), [] {});                // to which the loop comes late
  clock_.AdvanceTo(clock_.NowNs() + 60'000'000'000);  // nobody could answer meanwhile
  while (loop_.RunReady()) {
  }
  EXPECT_EQ(recovery_.stage(), S::kDump);
  Run(2000);
  EXPECT_EQ(recovery_.stage(), S::kAbort);
}

TEST_F(RecoveryTest, TheNewestWaitCountsAndTheTimeToRespawnBeginsBehindIt) {
  recovery_.Wait(milliseconds(5000));
  recovery_.Wait(milliseconds(8000));
  Run(6000);
  EXPECT_EQ(tries_, 0);
  EXPECT_TRUE(recovery_.Waits());
  recovery_.Happened(E::kSuspected);
  recovery_.Happened(E::kExplained);
  recovery_.Happened(E::kFreed);
  EXPECT_EQ(told_, "suspect 1000, abort 20000, respawn 32000, ");
  Run(2001);
  EXPECT_EQ(tries_, 1);
  EXPECT_FALSE(recovery_.Waits());
}

TEST_F(RecoveryTest, WorkersAreKeptForTenMinutesFromTheNewestKeep) {
  EXPECT_FALSE(recovery_.was_kept());
  recovery_.Keep();
  Run(400'000);
  recovery_.Keep();
  Run(599'000);
  EXPECT_TRUE(recovery_.Keeps());
  Run(1001);
  EXPECT_FALSE(recovery_.Keeps());
  EXPECT_TRUE(recovery_.was_kept());
  EXPECT_EQ(kept_, 1);
  recovery_.KeepNoMore();
  EXPECT_FALSE(recovery_.was_kept());
}

}  // namespace
}  // namespace coxswain::failure
