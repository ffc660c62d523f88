#include "controller/scheduler/preemption.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace coxswain::scheduler {
namespace {

using Jobs = std::vector<std::string>;

QueueEntry Waiting(const std::string& job, int64_t workers, int64_t priority,
                   const std::string& device = "cpu") {
  return {.job = job, .priority = priority, .order = 100, .device = device, .workers = workers};
}

RunningJob Running(const std::string& job, int64_t workers, int64_t priority = 0,
                   int64_t unsaved_steps = 0, int64_t order = 0) {
  return {.job = job,
          .priority = priority,
          .order = order,
          .device = "cpu",
          .workers = workers,
          .unsaved_steps = unsaved_steps};
}

Jobs Victims(std::vector<QueueEntry> queue, const std::vector<RunningJob>& running, int64_t living,
             int64_t coming = 0) {
  Jobs jobs;
  for (const Preemption& preemption : ChooseVictims(
           std::move(queue), running, {{.device = "cpu", .living = living, .coming = coming}})) {
    jobs.push_back(preemption.job);
  }
  return jobs;
}

TEST(PreemptionTest, AWaitingJobStopsOneOfStrictlyLowerPriority) {
  const std::vector<RunningJob> running = {Running("low", 2)};
  EXPECT_EQ(ChooseVictims({Waiting("high", 2, 1)}, running, {{"cpu", 2, 0}}),
            (std::vector<Preemption>{{"low", "high", 1}}));
  EXPECT_EQ(Victims({Waiting("equal", 2, 0)}, running, 2), Jobs{});
  EXPECT_EQ(Victims({Waiting("lower", 2, -1)}, running, 2), Jobs{});
  EXPECT_EQ(Victims({Waiting("elsewhere", 2, 1, "cuda")}, running, 2), Jobs{});
}

TEST(PreemptionTest, WorkersThatComeByThemselvesAreWaitedFor) {
  EXPECT_EQ(Victims({Waiting("high", 2, 1)}, {Running("low", 2)}, 4, /*coming=*/2), Jobs{});
  EXPECT_EQ(Victims({Waiting("high", 2, 1)}, {Running("low", 2)}, 4, /*coming=*/1), Jobs{"low"});
}

TEST(PreemptionTest, NobodyIsStoppedInVain) {
  EXPECT_EQ(Victims({Waiting("high", 3, 1)}, {Running("low", 2), Running("peer", 1, 1)}, 3),
            Jobs{});
  // More than live: it waits for more workers, and those behind it for nothing.
  EXPECT_EQ(Victims({Waiting("huge", 9, 5), Waiting("high", 1, 1)}, {Running("low", 2)}, 2),
            Jobs{"low"});
  // What gangs that keep lack is theirs first.
  EXPECT_EQ(Victims({Waiting("high", 2, 1)}, {Running("low", 2)}, 4, /*coming=*/-1), Jobs{});
}

TEST(PreemptionTest, OnlyTheFirstOfTheQueueHasItsTurn) {
  EXPECT_EQ(Victims({Waiting("second", 1, 1), Waiting("first", 1, 2)},
                    {Running("a", 1, 0, 0, 1), Running("b", 1, 0, 0, 2)}, 2),
            Jobs{"b"});
}

TEST(PreemptionTest, TheFewestAreStopped) {
  EXPECT_EQ(Victims({Waiting("high", 4, 9)},
                    {Running("a", 2), Running("b", 2), Running("whole", 4, 5)}, 8),
            Jobs{"whole"});
  EXPECT_EQ(Victims({Waiting("high", 4, 9)},
                    {Running("a", 1), Running("b", 2), Running("c", 2), Running("d", 1)}, 6),
            (Jobs{"b", "c"}));
}

TEST(PreemptionTest, LowestPriorityFirstThenTheLeastUnsavedThenTheYoungest) {
  EXPECT_EQ(Victims({Waiting("high", 1, 9)},
                    {Running("a", 1, 3), Running("b", 1, 1, 50), Running("c", 1, 2)}, 3),
            Jobs{"b"});
  EXPECT_EQ(Victims({Waiting("high", 1, 9)},
                    {Running("a", 1, 0, 7), Running("b", 1, 0, 2), Running("c", 1, 0, 5)}, 3),
            Jobs{"b"});
  EXPECT_EQ(Victims({Waiting("high", 1, 9)},
                    {Running("old", 1, 0, 0, 1), Running("young", 1, 0, 0, 2)}, 2),
            Jobs{"young"});
}

TEST(PreemptionTest, AGangThatKeepsItsWorkersStopsNobody) {
  QueueEntry keeper = Waiting("keeper", 2, 9);
  keeper.keeps = true;
  EXPECT_EQ(Victims({keeper}, {Running("low", 2)}, 2), Jobs{});
}

// Random cases against what every choice must be.
TEST(PreemptionTest, AChoiceIsEnoughLowerAndMinimal) {
  std::mt19937 random(7);
  const auto draw = [&](int below) { return static_cast<int64_t>(random() % below); };
  for (int round = 0; round < 20'000; ++round) {
    const int64_t need = 1 + draw(6), coming = draw(4) - 1, priority = draw(4);
    std::vector<RunningJob> running;
    const int64_t jobs = draw(6);
    for (int64_t i = 0; i < jobs; ++i) {
      running.push_back(
          Running(std::string(1, static_cast<char>('a' + i)), 1 + draw(4), draw(4), draw(3), i));
    }
    const Jobs victims = Victims({Waiting("high", need, priority)}, running, 100, coming);
    int64_t freed = coming;
    for (const RunningJob& job : running) {
      if (std::find(victims.begin(), victims.end(), job.job) == victims.end()) continue;
      ASSERT_LT(job.priority, priority);
      freed += job.workers;
    }
    if (!victims.empty()) {
      ASSERT_GE(freed, need);
    }
    size_t fewest = running.size() + 1;  // by all subsets
    for (uint32_t set = 0; set < (1u << running.size()); ++set) {
      int64_t workers = coming;
      size_t count = 0;
      bool lower = true;
      for (size_t i = 0; i < running.size(); ++i) {
        if ((set >> i & 1) == 0) continue;
        workers += running[i].workers;
        lower = lower && running[i].priority < priority;
        ++count;
      }
      if (lower && workers >= need) fewest = std::min(fewest, count);
    }
    ASSERT_EQ(victims.size(), fewest > running.size() ? 0 : fewest);
  }
}

}  // namespace
}  // namespace coxswain::scheduler
