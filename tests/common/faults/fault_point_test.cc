#include "common/faults/fault_point.h"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <thread>

#include "common/faults/fault_table.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::fault {
namespace {

class FaultPointTest : public testing::Test {
 protected:
  ~FaultPointTest() override { EXPECT_TRUE(Arm("", Process::kController).ok()); }

  static std::string Refusal(const std::string& text) {
    const absl::Status status = Arm(text, Process::kController);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    return std::string(status.message());
  }
};

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Invariant common-7.
TEST_F(FaultPointTest, NothingHappensWithoutAFault) {
  for (const Row& row : Table()) EXPECT_TRUE(Reach(row.point).ok()) << row.name;
  EXPECT_EQ(WallClockJumpMs(), 0);
}

TEST_F(FaultPointTest, AnErrorIsThatOfAFileOrOfACall) {
  ASSERT_TRUE(Arm("ckpt.rename:error,registry.register:error", Process::kController).ok());
  EXPECT_EQ(Reach(Point::kCheckpointRename).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Reach(Point::kRegistryRegister).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(Reach(Point::kCheckpointRenamed).ok());
  ASSERT_TRUE(Arm("ckpt.rename:enospc", Process::kController).ok());
  EXPECT_EQ(Reach(Point::kCheckpointRename).message(),
            "cannot pass fault point ckpt.rename: No space left on device");
}

TEST_F(FaultPointTest, ConditionsHoldTogether) {
  ASSERT_TRUE(Arm("shard.begin:step=7:rank=1:count=2:error", Process::kWorker).ok());
  EXPECT_TRUE(Reach(Point::kShardBegin, {.step = 7, .rank = 0}).ok());
  EXPECT_TRUE(Reach(Point::kShardBegin, {.step = 6, .rank = 1}).ok());
  EXPECT_TRUE(Reach(Point::kShardBegin, {.step = 7, .rank = 1}).ok());
  EXPECT_FALSE(Reach(Point::kShardBegin, {.step = 7, .rank = 1}).ok());
  EXPECT_TRUE(Reach(Point::kShardBegin, {.step = 7, .rank = 1}).ok());
}

TEST_F(FaultPointTest, OnceIsOnceOverProcesses) {
  const support::ScratchFolder folder;
  const std::string file = folder.path() + "/hit";
  const std::string text = "shard.block:once=" + file + ":error";
  ASSERT_TRUE(Arm(text, Process::kWorker).ok());
  EXPECT_FALSE(Reach(Point::kShardBlock).ok());
  EXPECT_TRUE(Reach(Point::kShardBlock).ok());
  EXPECT_TRUE(support::ReadFile(file).starts_with("shard.block error "));
  ASSERT_TRUE(Arm(text, Process::kWorker).ok());
  EXPECT_TRUE(Reach(Point::kShardBlock).ok());
}

TEST_F(FaultPointTest, KillsAndStopsItsProcess) {
  for (const auto& [action, ending] : {std::pair("kill", SIGKILL), std::pair("stop", SIGSTOP)}) {
    const pid_t child = fork();
    if (child == 0) {
      if (!Arm(std::string("formed:") + action, Process::kController).ok()) _exit(1);
      Pass(Point::kFormed);
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
    if (ending == SIGKILL) {
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
      continue;
    }
    EXPECT_TRUE(WIFSTOPPED(status));
    kill(child, SIGCONT);
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

// Also where another thread would hear the signal first.
TEST_F(FaultPointTest, AThreadThatStopsItsProcessDoesNothingMore) {
  void* const page = mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  auto& passed = *new (page) std::atomic<int>(0);
  for (int round = 0; round < 20; ++round) {  // a race would be won now and then
    passed = 0;
    const pid_t child = fork();
    if (child == 0) {
      if (!Arm("formed:stop", Process::kController).ok()) _exit(1);
      std::thread([&passed] {
        Pass(Point::kFormed);
        passed = 1;
        _exit(0);
      }).detach();
      while (true) pause();
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
    ASSERT_TRUE(WIFSTOPPED(status));
    EXPECT_EQ(passed, 0) << "round " << round;
    kill(child, SIGCONT);
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(passed, 1);
  }
  munmap(page, sizeof(std::atomic<int>));
}

TEST_F(FaultPointTest, TheWallClockJumpsAndStaysThere) {
  ASSERT_TRUE(Arm("clock.wall:count=2:jump=-5000", Process::kController).ok());
  EXPECT_EQ(WallClockJumpMs(), 0);
  EXPECT_EQ(WallClockJumpMs(), -5000);
  EXPECT_EQ(WallClockJumpMs(), -5000);
}

TEST_F(FaultPointTest, WhatIsNotKnownIsRefusedByWhatIs) {
  EXPECT_TRUE(Contains(Refusal("ckpt.renamed:kill"), "no point 'ckpt.renamed'; there are "));
  EXPECT_TRUE(Contains(Refusal("ckpt.renamed:kill"), "ckpt.after_rename, "));
  EXPECT_TRUE(Contains(Refusal("formed:error"), "no action 'error' at formed; there are kill, "));
  EXPECT_TRUE(Contains(Refusal("formed"), "has no action; there are kill, stop, delay=MS"));
  EXPECT_TRUE(Contains(Refusal("formed:delay"), "'delay' is written delay=MS"));
  EXPECT_TRUE(Contains(Refusal("formed:kill=3"), "'kill=3' is written kill"));
  EXPECT_TRUE(Contains(Refusal("formed:pid=3:kill"), "no condition 'pid=3'; there are step=N, "));
  EXPECT_TRUE(Contains(Refusal("formed:step=3:kill"), "formed knows no step"));
  EXPECT_TRUE(Contains(Refusal("formed:count=0:kill"), "'count=0' needs a number from 1"));
}

TEST_F(FaultPointTest, FaultsOfOtherProcessesArePassedOver) {
  ASSERT_TRUE(Arm("trained:error", Process::kController).ok());
  EXPECT_TRUE(Reach(Point::kTrained).ok());
  EXPECT_FALSE(Arm("traind:error", Process::kController).ok());
}

TEST_F(FaultPointTest, NamesAreUniqueAndEveryProcessListsItsOwn) {
  std::set<std::string> names;
  for (const Row& row : Table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(std::string(row.sentence).ends_with('.')) << row.name;
  }
  EXPECT_TRUE(Contains(ListFaults(Process::kWorker), "shard.block"));
  EXPECT_FALSE(Contains(ListFaults(Process::kWorker), "ckpt.rename"));
  EXPECT_TRUE(Contains(ListFaults(Process::kSupervisor), "relay.open"));
}

TEST_F(FaultPointTest, ThePageIsThatOfTheTable) {
  EXPECT_EQ(support::ReadFile("common/faults/FAULTS.md"), FaultsPage())
      << "build/cpu/bin/fault_reference > common/faults/FAULTS.md";
}

}  // namespace
}  // namespace coxswain::fault
