// cox as a process of its own: signals, shells, and the processes it starts.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "controller/cli/connect/cluster.h"
#include "controller/cli/machine/interrupt.h"
#include "controller/cli/machine/processes.h"
#include "tests/controller/cli/fake_jobs.h"
#include "tests/controller/cli/temp_dir.h"
#include "tests/support/eventually.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::cli {
namespace {

using std::chrono::milliseconds;
using support::Eventually;
using support::ReadFile;

// The real binary with both streams in one file.
struct RealCox {
  explicit RealCox(std::vector<std::string> args) : log(TempDir() + "/cox.log") {
    std::filesystem::remove(log);
    args.insert(args.begin(), COX_BINARY);
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    pid = fork();
    if (pid == 0) {
      const int fd = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
      dup2(fd, STDOUT_FILENO);
      dup2(fd, STDERR_FILENO);
      execv(argv[0], argv.data());
      _exit(126);
    }
  }
  int Wait() const {
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  std::string log;
  pid_t pid;
};

// Invariant cli-3.
TEST(SignalTest, InterruptDetachesAndLeavesTheJob) {
  for (const std::vector<std::string>& verb : {std::vector<std::string>{"watch", "tiny"},
                                               {"logs", "tiny", "-f"},
                                               {"events", "tiny", "-f"}}) {
    FakeJobs fake;
    const std::string id = fake.AddJob("tiny", v1::JOB_STATE_RUNNING);
    std::vector<std::string> args = verb;
    args.insert(args.end(), {"--server", fake.address()});
    const RealCox cox(args);
    ASSERT_TRUE(Eventually([&] { return fake.HasWatcher(); }));
    kill(cox.pid, SIGINT);
    EXPECT_EQ(cox.Wait(), 130) << verb[0];
    EXPECT_NE(ReadFile(cox.log).find("cox cancel tiny"), std::string::npos) << ReadFile(cox.log);
    fake.Edit(id, [](v1::Job* job) { EXPECT_EQ(job->state(), v1::JOB_STATE_RUNNING); });
  }
}

TEST(SignalTest, WatchSurvivesAJobThatGoesOn) {
  FakeJobs fake;
  const std::string id = fake.AddJob("tiny", v1::JOB_STATE_PAUSED);
  const RealCox cox({"watch", "tiny", "--server", fake.address()});
  ASSERT_TRUE(Eventually([&] { return fake.HasWatcher(); }));
  fake.RunSteps(id, FakeJobs::kTotalSteps);
  EXPECT_EQ(cox.Wait(), 0);
  EXPECT_NE(ReadFile(cox.log).find("tiny-000001 SUCCEEDED at step 4/4"), std::string::npos)
      << ReadFile(cox.log);
}

TEST(FollowTest, EachEventOnceOverBrokenStreams) {
  FakeJobs fake;
  const std::string id = fake.AddJob("tiny", v1::JOB_STATE_PAUSED);
  const RealCox cox({"events", "tiny", "-f", "-o", "json", "--server", fake.address()});
  for (int step = 1; step <= FakeJobs::kTotalSteps; ++step) {
    ASSERT_TRUE(Eventually([&] { return fake.HasWatcher(); }));
    fake.RunSteps(id, 1);
    const std::string seen = "\"step " + std::to_string(step) + "\"";
    ASSERT_TRUE(Eventually([&] { return ReadFile(cox.log).find(seen) != std::string::npos; }));
    if (step == 2) fake.BreakStreams();
  }
  EXPECT_EQ(cox.Wait(), 0);
  std::istringstream lines(ReadFile(cox.log));
  int64_t last = 0;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_EQ(line.rfind("{\"id\":" + std::to_string(++last) + ",", 0), 0u) << line;
  }
  EXPECT_EQ(last, 1 + 3 * FakeJobs::kTotalSteps);
}

TEST(CompletionTest, ScriptRunsInBash) {
  const std::string script =
      "source <(" COX_BINARY
      " completion bash); COMP_WORDS=(cox su); COMP_CWORD=1; _cox; echo ${COMPREPLY[@]};"
      "COMP_WORDS=(cox submit --id); COMP_CWORD=2; _cox; echo ${COMPREPLY[@]}";
  const std::string path = TempDir() + "/completion.out";
  ASSERT_EQ(std::system(("bash -c '" + script + "' > " + path).c_str()), 0);
  EXPECT_EQ(ReadFile(path), "submit\n--idempotency-key\n");
}

TEST(ProcessesTest, SpawnReportsWhatCannotStart) {
  const auto process =
      Spawn({.binary = "/nowhere/program", .args = {}, .log_path = TempDir() + "/spawn.log"});
  ASSERT_FALSE(process.ok());
  EXPECT_NE(std::string(process.status().message()).find("/nowhere/program: No such file"),
            std::string::npos);
}

// Ignores SIGTERM from when this returns.
absl::StatusOr<Process> SpawnStubborn(const std::string& log) {
  std::filesystem::remove(log);
  const auto stubborn =
      Spawn({.binary = "/bin/sh",
             .args = {"-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"},
             .log_path = log});
  EXPECT_TRUE(Eventually([&] { return ReadFile(log) == "ready\n"; }));
  return stubborn;
}

TEST(ProcessesTest, TerminateStopsAndKills) {
  const std::string log = TempDir() + "/terminate.log";
  const auto polite = Spawn({.binary = "/bin/sleep", .args = {"100"}, .log_path = log});
  ASSERT_TRUE(polite.ok()) << polite.status();
  EXPECT_TRUE(IsRunning(*polite));
  EXPECT_TRUE(Terminate(*polite, std::chrono::seconds(10)));
  EXPECT_FALSE(IsRunning(*polite));
  const auto stubborn = SpawnStubborn(log);
  ASSERT_TRUE(stubborn.ok());
  EXPECT_FALSE(Terminate(*stubborn, milliseconds(100)));
  EXPECT_FALSE(IsRunning(*stubborn));
}

TEST(ProcessesTest, AnInterruptEndsThePatience) {
  const auto stubborn = SpawnStubborn(TempDir() + "/interrupted.log");
  ASSERT_TRUE(stubborn.ok());
  CatchInterrupts();
  raise(SIGINT);
  const auto began = std::chrono::steady_clock::now();
  EXPECT_FALSE(Terminate(*stubborn, std::chrono::seconds(100), Patience::kUntilInterrupted));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(50));
  EXPECT_FALSE(IsRunning(*stubborn));
  ClearInterrupt();
  for (const int number : {SIGINT, SIGTERM}) std::signal(number, SIG_DFL);
}

// Invariant cli-6.
TEST(ProcessesTest, AReusedNumberIsAnotherProcess) {
  EXPECT_FALSE(IsRunning({.pid = getpid(), .start_ticks = 1}));
  EXPECT_FALSE(IsRunning({.pid = 0, .start_ticks = 0}));
}

// A coxswain-worker-cuda in PATH that is this shell script.
class GpusTest : public testing::Test {
 protected:
  void Install(const std::string& script) {
    const std::string bin = TempDir() + "/bin", path = bin + "/coxswain-worker-cuda";
    std::filesystem::create_directories(bin);
    std::ofstream(path) << "#!/bin/sh\n" << script;
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    setenv("PATH", (bin + ":" + path_).c_str(), 1);
  }
  void TearDown() override { setenv("PATH", path_.c_str(), 1); }

  const std::string path_ = std::getenv("PATH");
  const std::string directory_ = TempDir() + "/gpus";
};

TEST_F(GpusTest, AreThoseThatTheCudaWorkerLists) {
  Install("[ $1 = --list-gpus ] && printf 'GPU 0\\tNVIDIA H200\\nGPU 1\\tNVIDIA L4\\n'\n");
  const auto gpus = ListGpus(directory_);
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  EXPECT_EQ(*gpus, (std::vector<std::string>{"NVIDIA H200", "NVIDIA L4"}));
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
}

TEST_F(GpusTest, AGpuWithoutCodeIsToldByCoxUp) {
  const std::string refusal = "GPU 0: NVIDIA RTX 5090 (compute capability 12.0) has no code";
  Install("echo '" + refusal + "' >&2; exit 64\n");
  const auto gpus = ListGpus(directory_);
  EXPECT_EQ(gpus.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(std::string(gpus.status().message()), refusal);
  if (std::filesystem::exists(std::filesystem::path(COX_BINARY).parent_path() /
                              "coxswain-worker-cuda")) {
    GTEST_SKIP() << "cox takes the worker beside itself";
  }
  setenv("XDG_STATE_HOME", (TempDir() + "/state").c_str(), 1);
  const RealCox cox({"up", "--gpus", "all"});
  EXPECT_NE(cox.Wait(), 0);
  EXPECT_NE(ReadFile(cox.log).find(refusal), std::string::npos) << ReadFile(cox.log);
}

TEST(ClusterTest, LockIsExclusive) {
  const std::string dir = TempDir() + "/lock_dir";
  {
    const auto first = ClusterLock::Take(dir);
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_FALSE(ClusterLock::Take(dir).ok());
  }
  EXPECT_TRUE(ClusterLock::Take(dir).ok());
}

TEST(ClusterTest, NothingIsUpInAnEmptyDirectory) {
  const auto cluster = FindCluster(TempDir() + "/nothing_here");
  ASSERT_TRUE(cluster.ok());
  EXPECT_FALSE(cluster->has_value());
}

}  // namespace
}  // namespace coxswain::cli
