#include "controller/state/job_state.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

namespace coxswain::state {
namespace job_table {
namespace {

using E = JobEvent;
constexpr auto kQueued = v1::JOB_STATE_QUEUED;
constexpr auto kPreparing = v1::JOB_STATE_PREPARING;
constexpr auto kReady = v1::JOB_STATE_READY;
constexpr auto kAdmitted = v1::JOB_STATE_ADMITTED;
constexpr auto kForming = v1::JOB_STATE_FORMING;
constexpr auto kRunning = v1::JOB_STATE_RUNNING;
constexpr auto kRecovering = v1::JOB_STATE_RECOVERING;
constexpr auto kDraining = v1::JOB_STATE_DRAINING;
constexpr auto kPaused = v1::JOB_STATE_PAUSED;
constexpr auto kExporting = v1::JOB_STATE_EXPORTING;
constexpr auto kSucceeded = v1::JOB_STATE_SUCCEEDED;
constexpr auto kFailed = v1::JOB_STATE_FAILED;
constexpr auto kCancelled = v1::JOB_STATE_CANCELLED;

// Every allowed (state, event) pair; what is absent must be refused. DRAINING here drains to
// PAUSED.
const std::map<std::pair<v1::JobState, JobEvent>, v1::JobState>& Table() {
  static const auto* table = new std::map<std::pair<v1::JobState, JobEvent>, v1::JobState>{
      {{kQueued, E::kPrepareStarted}, kPreparing},
      {{kQueued, E::kPauseRequested}, kPaused},
      {{kQueued, E::kCancelRequested}, kCancelled},
      {{kQueued, E::kFailed}, kFailed},
      {{kQueued, E::kControllerRestarted}, kQueued},
      {{kPreparing, E::kPrepared}, kReady},
      {{kPreparing, E::kHeldUp}, kRecovering},
      {{kPreparing, E::kPauseRequested}, kPaused},
      {{kPreparing, E::kCancelRequested}, kCancelled},
      {{kPreparing, E::kFailed}, kFailed},
      {{kPreparing, E::kControllerRestarted}, kQueued},
      {{kReady, E::kAdmitted}, kAdmitted},
      {{kReady, E::kPauseRequested}, kPaused},
      {{kReady, E::kCancelRequested}, kCancelled},
      {{kReady, E::kFailed}, kFailed},
      {{kReady, E::kControllerRestarted}, kQueued},
      {{kAdmitted, E::kFormingStarted}, kForming},
      {{kAdmitted, E::kReadopted}, kRunning},
      {{kAdmitted, E::kAttemptFailed}, kRecovering},
      {{kAdmitted, E::kHeldUp}, kRecovering},
      {{kAdmitted, E::kPreempted}, kQueued},
      {{kAdmitted, E::kPauseRequested}, kPaused},
      {{kAdmitted, E::kCancelRequested}, kCancelled},
      {{kAdmitted, E::kFailed}, kFailed},
      {{kAdmitted, E::kControllerRestarted}, kQueued},
      {{kForming, E::kFormed}, kRunning},
      {{kForming, E::kAttemptFailed}, kRecovering},
      {{kForming, E::kHeldUp}, kRecovering},
      {{kForming, E::kPreempted}, kQueued},
      {{kForming, E::kPauseRequested}, kPaused},
      {{kForming, E::kCancelRequested}, kCancelled},
      {{kForming, E::kFailed}, kFailed},
      {{kForming, E::kControllerRestarted}, kQueued},
      {{kRunning, E::kAttemptFailed}, kRecovering},
      {{kRunning, E::kHeldUp}, kRecovering},
      {{kRunning, E::kCheckpointAdvanced}, kRunning},
      {{kRunning, E::kPauseRequested}, kDraining},
      {{kRunning, E::kPreempted}, kDraining},
      {{kRunning, E::kCancelRequested}, kDraining},
      {{kRunning, E::kStepsFinished}, kExporting},
      {{kRunning, E::kFailed}, kFailed},
      {{kRunning, E::kControllerRestarted}, kQueued},
      {{kRecovering, E::kAdmitted}, kAdmitted},
      {{kRecovering, E::kPrepareStarted}, kPreparing},
      {{kRecovering, E::kPauseRequested}, kPaused},
      {{kRecovering, E::kCancelRequested}, kCancelled},
      {{kRecovering, E::kFailed}, kFailed},
      {{kRecovering, E::kControllerRestarted}, kQueued},
      {{kDraining, E::kAttemptFailed}, kPaused},
      {{kDraining, E::kHeldUp}, kPaused},
      {{kDraining, E::kCheckpointAdvanced}, kDraining},
      {{kDraining, E::kPauseRequested}, kDraining},
      {{kDraining, E::kCancelRequested}, kDraining},
      {{kDraining, E::kDrained}, kPaused},
      {{kDraining, E::kFailed}, kFailed},
      {{kDraining, E::kControllerRestarted}, kPaused},
      {{kPaused, E::kPauseRequested}, kPaused},
      {{kPaused, E::kResumed}, kQueued},
      {{kPaused, E::kCancelRequested}, kCancelled},
      {{kPaused, E::kFailed}, kFailed},
      {{kPaused, E::kControllerRestarted}, kPaused},
      {{kExporting, E::kExported}, kSucceeded},
      {{kExporting, E::kCancelRequested}, kCancelled},
      {{kExporting, E::kFailed}, kFailed},
      {{kExporting, E::kControllerRestarted}, kExporting},
      {{kSucceeded, E::kControllerRestarted}, kSucceeded},
      {{kFailed, E::kControllerRestarted}, kFailed},
      {{kCancelled, E::kControllerRestarted}, kCancelled},
  };
  return *table;
}

JobStatus At(v1::JobState phase) {
  JobStatus status{.phase = phase, .epoch = 4, .restarts = 3, .restarts_since_checkpoint = 2};
  if (phase == kDraining) status.drain_goal = kPaused;
  return status;
}

// Invariant state-1.
TEST(JobStateTest, EveryStateTimesEveryEventIsAsTheTableSays) {
  for (int phase = kQueued; phase <= kCancelled; ++phase) {
    for (int number = 0; number < kNumJobEvents; ++number) {
      const auto state = static_cast<v1::JobState>(phase);
      const auto event = static_cast<JobEvent>(number);
      const auto expected = Table().find({state, event});
      const auto next = Transition(At(state), event);
      const std::string label =
          std::string(PhaseName(state)) + " + " + std::string(EventName(event));
      ASSERT_EQ(next.ok(), expected != Table().end()) << label;
      if (next.ok()) {
        EXPECT_EQ(next->phase, expected->second) << label;
      } else {
        EXPECT_EQ(next.status().code(), absl::StatusCode::kFailedPrecondition) << label;
        EXPECT_NE(next.status().message().find(std::string(PhaseName(state))),
                  absl::string_view::npos);
      }
    }
  }
}

TEST(JobStateTest, ARefusalSaysWhyInPlainWords) {
  const auto why = [](v1::JobState phase, E event) {
    return std::string(Transition(At(phase), event).status().message());
  };
  EXPECT_EQ(why(kCancelled, E::kResumed), "is CANCELLED: it has ended; submit it again");
  EXPECT_EQ(why(kSucceeded, E::kPauseRequested),
            "is SUCCEEDED: it has ended; there is nothing to pause");
  EXPECT_EQ(why(kFailed, E::kCancelRequested),
            "is FAILED: it has ended; there is nothing to cancel");
  EXPECT_EQ(why(kRunning, E::kResumed), "is RUNNING: only a PAUSED job can be resumed");
  EXPECT_EQ(why(kExporting, E::kPauseRequested), "is EXPORTING: there is no step left to pause");
}

// Invariant state-3.
TEST(JobStateTest, OnlyFormingTakesAnEpochAndOnlyARetryCounts) {
  for (const auto& [key, to] : Table()) {
    const JobStatus before = At(key.first);
    const JobStatus after = *Transition(before, key.second);
    EXPECT_EQ(after.epoch - before.epoch, key.second == E::kFormingStarted ? 1u : 0u);
    const bool counted = after.phase == kRecovering && key.second == E::kAttemptFailed;
    EXPECT_EQ(after.restarts - before.restarts, counted ? 1 : 0);
    EXPECT_EQ(after.restarts_since_checkpoint,
              key.second == E::kCheckpointAdvanced ? 0 : 2 + (counted ? 1 : 0));
  }
}

// Invariant state-6.
TEST(JobStateTest, ANewCheckpointMakesTheAttemptsBeforeItNotCount) {
  JobStatus status = At(kRunning);
  for (int fault = 0; fault < 5; ++fault) {
    for (const E event : {E::kAttemptFailed, E::kAdmitted, E::kFormingStarted, E::kFormed,
                          E::kCheckpointAdvanced}) {
      status = *Transition(status, event);
    }
    EXPECT_EQ(status.restarts, 4 + fault);
    EXPECT_EQ(status.restarts_since_checkpoint, 0);
  }
}

TEST(JobStateTest, DrainRemembersWhereItEnds) {
  const JobStatus running = At(kRunning);
  for (const auto& [event, goal] :
       std::map<JobEvent, v1::JobState>{{E::kPauseRequested, kPaused},
                                        {E::kPreempted, kQueued},
                                        {E::kCancelRequested, kCancelled}}) {
    const JobStatus draining = *Transition(running, event);
    EXPECT_EQ(draining.drain_goal, goal);
    for (const JobEvent end : {E::kDrained, E::kAttemptFailed, E::kControllerRestarted}) {
      const JobStatus ended = *Transition(draining, end);
      EXPECT_EQ(ended.phase, goal);
      EXPECT_EQ(ended.drain_goal, v1::JOB_STATE_UNSPECIFIED);
    }
  }
}

TEST(JobStateTest, CancelWinsOverPause) {
  const JobStatus cancelling = *Transition(At(kRunning), E::kCancelRequested);
  EXPECT_FALSE(Transition(cancelling, E::kPauseRequested).ok());
  const JobStatus pausing = *Transition(At(kRunning), E::kPauseRequested);
  EXPECT_EQ(Transition(pausing, E::kCancelRequested)->drain_goal, kCancelled);
}

// Invariants state-2 and state-3. Rules of a job's life, whatever happens to it:
//  1 a terminal state is never left;  2 the epoch never falls;  3 RUNNING is entered from FORMING,
//  or from ADMITTED by Readopted; 4 SUCCEEDED is entered from EXPORTING only;  5 a drain goal is
//  set exactly while DRAINING; 6 restarts never fall, and those since the last new checkpoint are
//  never more; 7 being held up counts nothing.
TEST(JobStateTest, RandomWalksKeepTheRules) {
  std::mt19937 random(7);
  for (int walk = 0; walk < 2000; ++walk) {
    JobStatus status;
    for (int step = 0; step < 60; ++step) {
      const auto event = static_cast<JobEvent>(random() % kNumJobEvents);
      const auto next = Transition(status, event);
      if (!next.ok()) continue;
      if (IsTerminal(status.phase)) {
        EXPECT_EQ(*next, status) << "rule 1";
      }
      EXPECT_GE(next->epoch, status.epoch) << "rule 2";
      if (next->phase == kRunning && status.phase != kRunning) {
        EXPECT_EQ(status.phase, event == E::kReadopted ? kAdmitted : kForming) << "rule 3";
      }
      if (next->phase == kSucceeded && status.phase != kSucceeded) {
        EXPECT_EQ(status.phase, kExporting) << "rule 4";
      }
      EXPECT_EQ(next->phase == kDraining, next->drain_goal != v1::JOB_STATE_UNSPECIFIED)
          << "rule 5";
      EXPECT_GE(next->restarts, status.restarts) << "rule 6";
      EXPECT_LE(next->restarts_since_checkpoint, next->restarts) << "rule 6";
      if (event == E::kHeldUp) {
        EXPECT_EQ(next->restarts_since_checkpoint, status.restarts_since_checkpoint) << "rule 7";
      }
      status = *next;
    }
  }
}

}  // namespace
}  // namespace job_table
}  // namespace coxswain::state
