#include "worker/agent/agent_state.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>

namespace coxswain::agent {
namespace {

using E = AgentEvent;
using S = AgentState;

// State after the event, by state: IDLE, PREPARING, READY, CONNECTED, RUNNING, ABORTED; -1 refused.
const std::map<E, std::array<int, kNumAgentStates>>& Table() {
  // NOLINTNEXTLINE(readability-identifier-naming): a column of the table is a letter
  constexpr int i = 0, p = 1, r = 2, c = 3, u = 4, a = 5, x = -1;
  static const auto* table = new std::map<E, std::array<int, kNumAgentStates>>{
      {E::kPrepareStarted, {p, x, x, x, x, p}}, {E::kPrepared, {x, r, x, x, x, x}},
      {E::kConnected, {x, x, c, x, c, x}},      {E::kCommandQueued, {x, x, u, u, u, x}},
      {E::kEpochFailed, {x, a, a, a, a, x}},    {E::kEpochAborted, {a, a, a, a, a, a}},
      {E::kEngineStopped, {i, x, x, x, x, i}},  {E::kReleased, {i, i, i, i, i, i}},
  };
  return *table;
}

TEST(AgentStateTest, EveryStateTimesEveryEventIsAsTheTableSays) {
  ASSERT_EQ(Table().size(), static_cast<size_t>(kNumAgentEvents));
  for (const auto& [event, row] : Table()) {
    for (int state = 0; state < kNumAgentStates; ++state) {
      const auto next = Transition(static_cast<S>(state), event);
      ASSERT_EQ(next.ok(), row[state] >= 0)
          << StateName(static_cast<S>(state)) << " + " << EventName(event);
      if (next.ok()) {
        EXPECT_EQ(static_cast<int>(*next), row[state]) << EventName(event);
      }
    }
  }
}

TEST(AgentStateTest, ARefusalNamesStateAndEvent) {
  const auto refused = Transition(S::kIdle, E::kPrepared);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(std::string(refused.status().message()), "an agent in state IDLE cannot take Prepared");
}

}  // namespace
}  // namespace coxswain::agent
