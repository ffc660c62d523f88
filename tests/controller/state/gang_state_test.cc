#include "controller/state/gang_state.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>

namespace coxswain::state {
namespace gang_table {
namespace {

using E = GangEvent;
using P = GangPhase;

// World of one rank: every arrival is the last.
const std::map<std::pair<P, E>, P>& Table() {
  static const auto* table = new std::map<std::pair<P, E>, P>{
      {{P::kPreparing, E::kRankPrepared}, P::kConnecting},
      {{P::kPreparing, E::kReadopted}, P::kRunning},
      {{P::kPreparing, E::kRankFailed}, P::kAborted},
      {{P::kPreparing, E::kAbortRequested}, P::kAborted},
      {{P::kConnecting, E::kRankConnected}, P::kRunning},
      {{P::kConnecting, E::kRankFailed}, P::kAborted},
      {{P::kConnecting, E::kAbortRequested}, P::kAborted},
      {{P::kRunning, E::kDrainRequested}, P::kDraining},
      {{P::kRunning, E::kFinished}, P::kReleased},
      {{P::kRunning, E::kRankFailed}, P::kAborted},
      {{P::kRunning, E::kAbortRequested}, P::kAborted},
      {{P::kDraining, E::kDrainRequested}, P::kDraining},
      {{P::kDraining, E::kFinished}, P::kReleased},
      {{P::kDraining, E::kRankFailed}, P::kAborted},
      {{P::kDraining, E::kAbortRequested}, P::kAborted},
      {{P::kReleased, E::kRankFailed}, P::kReleased},
      {{P::kReleased, E::kAbortRequested}, P::kReleased},
      {{P::kAborted, E::kRankFailed}, P::kAborted},
      {{P::kAborted, E::kAbortRequested}, P::kAborted},
  };
  return *table;
}

// Invariant state-1.
TEST(GangStateTest, EveryPhaseTimesEveryEventIsAsTheTableSays) {
  for (int phase = 0; phase < kNumGangPhases; ++phase) {
    for (int event = 0; event < kNumGangEvents; ++event) {
      const std::pair<P, E> key{static_cast<P>(phase), static_cast<E>(event)};
      const auto expected = Table().find(key);
      const auto next = Transition({.phase = key.first}, key.second);
      ASSERT_EQ(next.ok(), expected != Table().end())
          << PhaseName(key.first) << " + " << EventName(key.second);
      if (next.ok()) {
        EXPECT_EQ(next->phase, expected->second);
      }
    }
  }
}

TEST(GangStateTest, WaitsForEveryRank) {
  GangStatus gang{.world_size = 3};
  for (const E event : {E::kRankPrepared, E::kRankConnected}) {
    const P before = gang.phase;
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(gang.phase, before);
      gang = *Transition(gang, event);
    }
    EXPECT_NE(gang.phase, before);
    EXPECT_EQ(gang.arrived, 0);
  }
  EXPECT_EQ(gang.phase, P::kRunning);
}

}  // namespace
}  // namespace gang_table
}  // namespace coxswain::state
