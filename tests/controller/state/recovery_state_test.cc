#include "controller/state/recovery_state.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

namespace coxswain::state {
namespace recovery_table {
namespace {

using E = RecoveryEvent;
using S = RecoveryStage;

// Every allowed (stage, event) pair; what is absent must be refused.
const std::map<std::pair<S, E>, S>& Table() {
  static const auto* table = new std::map<std::pair<S, E>, S>{
      {{S::kNone, E::kSuspected}, S::kSuspect},   {{S::kNone, E::kPlaced}, S::kNone},
      {{S::kNone, E::kStopped}, S::kNone},        {{S::kSuspect, E::kSuspected}, S::kSuspect},
      {{S::kSuspect, E::kUnexplained}, S::kDump}, {{S::kSuspect, E::kExplained}, S::kAbort},
      {{S::kSuspect, E::kStopped}, S::kNone},     {{S::kSuspect, E::kDeadline}, S::kSuspect},
      {{S::kDump, E::kSuspected}, S::kDump},      {{S::kDump, E::kDumped}, S::kAbort},
      {{S::kDump, E::kStopped}, S::kNone},        {{S::kDump, E::kDeadline}, S::kAbort},
      {{S::kAbort, E::kFreed}, S::kRespawn},      {{S::kAbort, E::kPlaced}, S::kNone},
      {{S::kAbort, E::kStopped}, S::kNone},       {{S::kAbort, E::kDeadline}, S::kKill},
      {{S::kKill, E::kFreed}, S::kRespawn},       {{S::kKill, E::kPlaced}, S::kNone},
      {{S::kKill, E::kStopped}, S::kNone},        {{S::kKill, E::kDeadline}, S::kRespawn},
      {{S::kRespawn, E::kPlaced}, S::kNone},      {{S::kRespawn, E::kStopped}, S::kNone},
      {{S::kRespawn, E::kDeadline}, S::kReplace}, {{S::kReplace, E::kPlaced}, S::kNone},
      {{S::kReplace, E::kStopped}, S::kNone},     {{S::kReplace, E::kDeadline}, S::kRequeue},
      {{S::kRequeue, E::kPlaced}, S::kNone},      {{S::kRequeue, E::kStopped}, S::kNone},
  };
  return *table;
}

// Invariant state-1.
TEST(RecoveryStateTest, EveryStageTimesEveryEventIsAsTheTableSays) {
  for (int stage = 0; stage < kNumRecoveryStages; ++stage) {
    for (int event = 0; event < kNumRecoveryEvents; ++event) {
      const std::pair<S, E> key{static_cast<S>(stage), static_cast<E>(event)};
      const auto expected = Table().find(key);
      const auto next = Transition(key.first, key.second);
      ASSERT_EQ(next.ok(), expected != Table().end())
          << StageName(key.first) << " + " << EventName(key.second);
      if (next.ok()) {
        EXPECT_EQ(*next, expected->second);
      } else {
        EXPECT_NE(next.status().message().find(std::string(StageName(key.first))),
                  std::string::npos);
      }
    }
  }
}

// Invariant state-7: whatever happens, stages come in their order, a dump before every abort that
// follows it, and only a stop or workers for the next gang end them.
TEST(RecoveryStateTest, RandomWalksGoForwardOnly) {
  std::mt19937_64 random(7);
  for (int walk = 0; walk < 200; ++walk) {
    S stage = S::kNone;
    for (int i = 0; i < 200; ++i) {
      const auto event = static_cast<E>(random() % kNumRecoveryEvents);
      const auto next = Transition(stage, event);
      if (!next.ok()) continue;
      const bool over = event == E::kPlaced || event == E::kStopped;
      if (over) {
        EXPECT_EQ(*next, S::kNone);
      } else {
        EXPECT_GE(*next, stage);
        EXPECT_NE(*next, S::kNone);
      }
      if (*next == S::kDump) {
        EXPECT_LE(stage, S::kDump);
      }
      stage = *next;
    }
  }
}

TEST(RecoveryStateTest, ByDeadlinesAloneAFailureEndsInTheQueue) {
  S stage = *Transition(S::kNone, E::kSuspected);
  stage = *Transition(stage, E::kUnexplained);
  for (int i = 0; i < 5; ++i) stage = *Transition(stage, E::kDeadline);
  EXPECT_EQ(stage, S::kRequeue);
  EXPECT_FALSE(Transition(stage, E::kDeadline).ok());
}

}  // namespace
}  // namespace recovery_table
}  // namespace coxswain::state
