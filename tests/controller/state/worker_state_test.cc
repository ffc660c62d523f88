#include "controller/state/worker_state.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>

namespace coxswain::state {
namespace worker_table {
namespace {

using E = WorkerEvent;
using P = WorkerPhase;

// Phase after the event, by phase: CONNECTED, READY, JOINED, RUNNING, ABORTING, LOST; -1 refused.
const std::map<E, std::array<int, kNumWorkerPhases>>& Table() {
  // NOLINTNEXTLINE(readability-identifier-naming): a column of the table is a letter
  constexpr int c = 0, r = 1, j = 2, u = 3, a = 4, l = 5, x = -1;
  static const auto* table = new std::map<E, std::array<int, kNumWorkerPhases>>{
      {E::kRegistered, {c, c, j, u, a, c}},     {E::kBeat, {r, r, j, u, a, x}},
      {E::kBeatLate, {c, r, j, u, a, x}},       {E::kLeaseExpired, {l, l, l, l, l, x}},
      {E::kStreamReset, {l, l, l, l, l, x}},    {E::kReserved, {x, j, x, x, x, x}},
      {E::kStepsStarted, {x, x, u, x, x, x}},   {E::kReleased, {x, x, r, r, x, x}},
      {E::kAbortSent, {a, a, a, a, a, x}},      {E::kAborted, {x, x, x, x, r, x}},
      {E::kDrainRequested, {c, r, j, u, a, x}}, {E::kReturned, {j, x, x, x, x, x}},
  };
  return *table;
}

// Invariant state-1.
TEST(WorkerStateTest, EveryPhaseTimesEveryEventIsAsTheTableSays) {
  ASSERT_EQ(Table().size(), static_cast<size_t>(kNumWorkerEvents));
  for (const auto& [event, row] : Table()) {
    for (int phase = 0; phase < kNumWorkerPhases; ++phase) {
      const auto next = Transition({.phase = static_cast<P>(phase)}, event);
      ASSERT_EQ(next.ok(), row[phase] >= 0)
          << PhaseName(static_cast<P>(phase)) << " + " << EventName(event);
      if (next.ok()) {
        EXPECT_EQ(static_cast<int>(next->phase), row[phase]) << EventName(event);
      }
    }
  }
}

// Invariant state-4.
TEST(WorkerStateTest, SuspectAndDrainingWorkersAreNotReserved) {
  EXPECT_FALSE(Transition({.phase = P::kReady, .suspect = true}, E::kReserved).ok());
  EXPECT_FALSE(Transition({.phase = P::kReady, .draining = true}, E::kReserved).ok());
  const WorkerStatus late = *Transition({.phase = P::kReady}, E::kBeatLate);
  EXPECT_TRUE(late.suspect);
  EXPECT_FALSE(Transition(late, E::kBeat)->suspect);
}

TEST(WorkerStateTest, WhoSaidThatItLeavesIsNotLost) {
  EXPECT_EQ(StatusName(*Transition({.phase = P::kReady}, E::kStreamReset)), "LOST");
  EXPECT_EQ(StatusName(*Transition({.phase = P::kReady, .draining = true}, E::kStreamReset)),
            "LEFT");
}

// Invariant state-5. Rules: 1 JOINED is entered from READY, or by Returned; 2 LOST is left by
// registering only; 3 a worker that aborts is READY only after it said so; 4 a draining worker
// stays so until it registers anew.
TEST(WorkerStateTest, RandomWalksKeepTheRules) {
  std::mt19937 random(11);
  for (int walk = 0; walk < 2000; ++walk) {
    WorkerStatus status;
    for (int step = 0; step < 60; ++step) {
      const auto event = static_cast<E>(random() % kNumWorkerEvents);
      const auto next = Transition(status, event);
      if (!next.ok()) continue;
      if (next->phase == P::kJoined && status.phase != P::kJoined) {
        EXPECT_EQ(status.phase, event == E::kReturned ? P::kConnected : P::kReady) << "rule 1";
      }
      if (status.phase == P::kLost) {
        EXPECT_EQ(event, E::kRegistered) << "rule 2";
      }
      if (status.phase == P::kAborting && next->phase == P::kReady) {
        EXPECT_EQ(event, E::kAborted);
      }
      if (status.draining && !next->draining) {
        EXPECT_EQ(event, E::kRegistered) << "rule 4";
      }
      status = *next;
    }
  }
}

}  // namespace
}  // namespace worker_table
}  // namespace coxswain::state
