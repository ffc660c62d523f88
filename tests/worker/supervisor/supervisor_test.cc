// The supervisor's binary over a fake worker.
#include "worker/supervisor/supervisor.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include "coxswain/v1/relay_service.grpc.pb.h"
#include "tests/support/eventually.h"
#include "tests/support/scratch_folder.h"
#include "worker/supervisor/processes.h"
#include "worker/supervisor/stack_taker.h"
#include "worker/supervisor/stacks.h"

namespace coxswain::supervisor {
namespace {

using std::chrono::milliseconds;
using support::Eventually;

int Exited(int code) { return code << 8; }  // as waitpid gives it

TEST(RestartPolicyTest, DelaysDoubleUpToTheLastAndALongLifeForgives) {
  const RestartPolicy policy;
  Failures failures;
  for (const int expected : {500, 1000, 2000, 4000, 8000, 16000, 30000, 30000}) {
    EXPECT_EQ(NextStart(policy, Exited(1), milliseconds(10), &failures), milliseconds(expected));
  }
  EXPECT_EQ(NextStart(policy, SIGSEGV, milliseconds(60000), &failures), milliseconds(500));
  for (int i = 0; i < 100; ++i) NextStart(policy, Exited(1), milliseconds(10), &failures);
  EXPECT_EQ(NextStart(policy, Exited(70), milliseconds(10), &failures), milliseconds(30000));
}

// Invariant supervisor-1.
TEST(RestartPolicyTest, SomeCodesForbidARestart) {
  Failures failures;
  for (const int code : {0, 64, 77}) {
    EXPECT_FALSE(NextStart({}, Exited(code), milliseconds(10), &failures).has_value()) << code;
  }
  for (const int code : {1, 2, 70, 75, 86, 127}) {
    EXPECT_TRUE(NextStart({}, Exited(code), milliseconds(10), &failures).has_value()) << code;
  }
  EXPECT_EQ(ExitCode(Exited(70)), 70);
  EXPECT_EQ(ExitCode(SIGKILL), 137);
}

TEST(FindBinaryTest, NotFoundNamesWhereItLooked) {
  const absl::Status status = FindBinary("coxswain-no-such-program").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(status.message().find("libexec/coxswain"), std::string::npos) << status;
  EXPECT_FALSE(FindInPath("sh").empty());
}

TEST(StacksTest, ShowsEveryThreadAndSaysTheSource) {
  const std::string proc = ProcStacks(getpid());
  EXPECT_NE(proc.find("thread " + std::to_string(getpid())), std::string::npos) << proc;
  EXPECT_NE(proc.find("State:"), std::string::npos) << proc;
  EXPECT_EQ(ProcStacks(-1), "");
}

// A child of this process that waits in pause() until it is killed.
class Child {
 public:
  Child() : pid_(fork()) {
    while (pid_ == 0) pause();
  }
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  void Stop() const {
    kill(pid_, SIGSTOP);
    waitpid(pid_, nullptr, WUNTRACED);
  }
  pid_t pid() const { return pid_; }

 private:
  const pid_t pid_;
};

TEST(ProcessFactsTest, TellStateMemoryAndParent) {
  const Child child;
  child.Stop();
  const std::optional<ProcessFacts> facts = ReadProcess(child.pid());
  ASSERT_TRUE(facts.has_value());
  EXPECT_EQ(facts->state, "T (stopped)");
  EXPECT_EQ(facts->parent, getpid());
  EXPECT_EQ(facts->threads, 1);
  EXPECT_GT(facts->resident_bytes, 100'000);
  EXPECT_GE(facts->cpu_seconds, 0);
  EXPECT_LT(facts->cpu_seconds, 60);
}

TEST(StackTakerTest, ReadsAStoppedProcessAndLeavesItStopped) {
  const Child child;
  child.Stop();
  StackTaker taker;
  const std::string text = taker.TakeNow(child.pid(), milliseconds(20'000));
  EXPECT_EQ(text.find("stacks of process " + std::to_string(child.pid())), 0u) << text;
  if (!FindInPath("gdb").empty()) {
    EXPECT_NE(text.find("\n#1 "), std::string::npos) << text;
  }
  EXPECT_EQ(ReadProcess(child.pid())->state, "T (stopped)");
}

TEST(StackTakerTest, OneReadingAnswersAllWhoAskMeanwhile) {
  const Child child;
  std::mutex mu;
  std::vector<std::string> texts;
  {
    StackTaker taker;
    for (int i = 0; i < 5; ++i) {
      taker.Take(child.pid(), milliseconds(20'000), [&](const std::string& text) {
        const std::lock_guard lock(mu);
        texts.push_back(text);
      });
    }
  }
  ASSERT_EQ(texts.size(), 5u);
  for (const std::string& text : texts) {
    EXPECT_EQ(text.find("stacks of process "), 0u) << text;
    EXPECT_EQ(text.find("already traced"), std::string::npos) << text;
  }
}

TEST(StackTakerTest, MoreThanMayBeReadAtOnceAreReadAllTheSame) {
  std::vector<std::unique_ptr<Child>> children;
  for (int i = 0; i < StackTaker::kMostAtOnce + 2; ++i) {
    children.push_back(std::make_unique<Child>());
  }
  std::atomic<int> read{0};
  {
    StackTaker taker;
    for (const auto& child : children) {
      taker.Take(child->pid(), milliseconds(20'000), [&read](const std::string& text) {
        read += text.find("stacks of process ") == 0 ? 1 : 0;
      });
    }
  }
  EXPECT_EQ(read, static_cast<int>(children.size()));
}

TEST(StacksTest, WhatADebuggerCannotGiveInTimeComesFromProc) {
  const Child child;
  const std::string text = NativeStacks(child.pid(), milliseconds(0));
  EXPECT_NE(text.find("from /proc ("), std::string::npos) << text;
  EXPECT_NE(text.find("thread " + std::to_string(child.pid())), std::string::npos) << text;
}

TEST(ProcessFactsTest, TellsADebugger) {
  EXPECT_EQ(ReadProcess(getpid())->tracer, 0);
  EXPECT_FALSE(ReadProcess(-1).has_value());
  const pid_t child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);  // a traced child that stops is told of
  ASSERT_TRUE(WIFSTOPPED(status));
  EXPECT_EQ(ReadProcess(child)->tracer, getpid());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

class SilenceTest : public testing::Test {
 protected:
  // A turn that began `seconds` after the last.
  bool TooLongAfter(double seconds, bool gave_sign = false) {
    now_ += std::chrono::duration_cast<Silence::Clock::duration>(
        std::chrono::duration<double>(seconds));
    silence_.BeginTurn(now_);
    return silence_.TooLong(gave_sign, &last_);
  }
  Silence silence_{milliseconds(5000), milliseconds(1000)};
  Silence::Clock::time_point now_{std::chrono::hours(1)};
  Silence::LastSign last_{.at = now_};
};

TEST_F(SilenceTest, IsCountedFromTheLastSign) {
  EXPECT_FALSE(TooLongAfter(1, true));
  for (int turn = 0; turn < 4; ++turn) EXPECT_FALSE(TooLongAfter(1));
  EXPECT_TRUE(TooLongAfter(1));
  EXPECT_FALSE(TooLongAfter(1, true));
  EXPECT_FALSE(TooLongAfter(1));
}

// It may have stopped before it could say anything.
TEST_F(SilenceTest, AProcessThatNeverGaveASignHasLongerToBeLoaded) {
  for (int turn = 0; turn < 49; ++turn) EXPECT_FALSE(TooLongAfter(1));
  EXPECT_TRUE(TooLongAfter(1));
}

// The supervisor and its workers were stopped together: nobody could have said anything.
TEST_F(SilenceTest, AStallOfTheSupervisorIsNoSilenceOfItsWorkers) {
  EXPECT_FALSE(TooLongAfter(1, true));
  EXPECT_FALSE(TooLongAfter(3600));
  for (int turn = 0; turn < 3; ++turn) EXPECT_FALSE(TooLongAfter(1));
  EXPECT_TRUE(TooLongAfter(1));
}

// What the controller said meanwhile waited in the sockets.
TEST_F(SilenceTest, AStallIsRememberedForAWhile) {
  TooLongAfter(1);
  TooLongAfter(1.9);  // a busy machine
  EXPECT_FALSE(silence_.JustStalled());
  TooLongAfter(45);
  EXPECT_TRUE(silence_.JustStalled());
  for (int turn = 0; turn < 4; ++turn) TooLongAfter(1);
  EXPECT_TRUE(silence_.JustStalled());
  TooLongAfter(1);
  EXPECT_FALSE(silence_.JustStalled());
}

TEST_F(SilenceTest, NoLimitIsNever) {
  const Silence never(milliseconds(0), milliseconds(1000));
  Silence::LastSign last{.at = now_ - std::chrono::hours(1)};
  EXPECT_FALSE(never.TooLong(false, &last));
}

class SupervisorTest : public testing::Test {
 protected:
  ~SupervisorTest() override {
    if (pid_ > 0) kill(pid_, SIGKILL);
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
  }

  void Start(const char* mode, int workers, const char* grace_seconds = "30", int gpus = 0,
             const char* stopped_exit_code = "0") {
    const std::string count = std::to_string(workers), gpu_count = std::to_string(gpus);
    pid_ = fork();
    if (pid_ == 0) {
      setenv("COXSWAIN_FAKE_CHILD", mode, 1);
      execl(COXSWAIN_SUPERVISOR, "coxswain-supervisor", "--controller", "127.0.0.1:1", "--workers",
            count.c_str(), "--threads", "1", "--listen", "127.0.0.1:9000", "--metrics",
            "127.0.0.1:0", "--state-dir", dir_.c_str(), "--worker-binary", COXSWAIN_FAKE_CHILD,
            "--cuda-worker-binary", COXSWAIN_FAKE_CHILD, "--gpus", gpu_count.c_str(), "--open",
            "--grace-seconds", grace_seconds, "--first-slot", first_slot_, "--stopped-exit-code",
            stopped_exit_code, "--silence-seconds", silence_,
            relay_ == nullptr ? nullptr : "--relay", relay_, nullptr);
      _exit(127);
    }
  }
  int Wait() {
    int status = 0;
    const bool ended = Eventually([&] { return waitpid(pid_, &status, WNOHANG) == pid_; });
    EXPECT_TRUE(ended);
    pid_ = -1;
    return ExitCode(status);
  }
  std::string File(int slot, const char* what) {
    return dir_ + "/worker-" + std::to_string(slot) + what;
  }
  std::string Arguments(int slot) {
    std::string arguments;
    std::getline(std::ifstream(File(slot, ".json.arguments")), arguments);
    return arguments;
  }
  // That the worker is told.
  std::string SupervisorAddress(int slot) {
    const std::string arguments = Arguments(slot), name = "--supervisor|";
    const size_t at = arguments.find(name);
    if (at == std::string::npos) return arguments;
    const size_t begin = at + name.size();
    return arguments.substr(begin, arguments.find('|', begin) - begin);
  }
  int Starts(int slot) {
    std::ifstream in(File(slot, ".json.starts"));
    int lines = 0;
    for (std::string line; std::getline(in, line);) ++lines;
    return lines;
  }
  pid_t ReadyPid(int slot) {
    pid_t pid = 0;
    Eventually([&] { return static_cast<bool>(std::ifstream(File(slot, ".json.ready")) >> pid); });
    return pid;
  }
  bool Gone(pid_t pid) {
    return Eventually([&] { return kill(pid, 0) != 0 && errno == ESRCH; });
  }

  const support::ScratchFolder folder_;
  const std::string dir_ = folder_.path();
  const char* first_slot_ = "0";
  const char* silence_ = "30";
  const char* relay_ = "127.0.0.1:0";  // null: by default
  pid_t pid_ = -1;
};

TEST_F(SupervisorTest, StartsWorkersAndForwardsSigterm) {
  Start("runs", 2);
  const pid_t first = ReadyPid(0), second = ReadyPid(1);
  ASSERT_GT(first, 0);
  ASSERT_GT(second, 0);
  EXPECT_EQ(getpgid(first), first);  // Invariant supervisor-4
  const std::string arguments = Arguments(1), id = "--supervisor-id|";
  EXPECT_NE(arguments.find("--slot|1|"), std::string::npos) << arguments;
  const size_t at = arguments.find(id);
  ASSERT_NE(at, std::string::npos) << arguments;
  EXPECT_NE(Arguments(0).find(arguments.substr(at, id.size() + 36)), std::string::npos)
      << "one supervisor: " << arguments << " and " << Arguments(0);
  EXPECT_NE(arguments.find("--listen|127.0.0.1:9001|"), std::string::npos) << arguments;
  EXPECT_NE(arguments.find("--metrics|127.0.0.1:0|"), std::string::npos) << arguments;
  kill(pid_, SIGTERM);
  EXPECT_EQ(Wait(), 0);
  EXPECT_TRUE(Gone(first));
  EXPECT_TRUE(Gone(second));
}

TEST_F(SupervisorTest, GpuWorkersComeAfterCpuWorkersWithTheDefaultsOfTheirDevice) {
  Start("runs", 1, "30", 2);
  ASSERT_GT(ReadyPid(0), 0);
  for (const int slot : {1, 2}) {
    ASSERT_GT(ReadyPid(slot), 0);
    std::string arguments;
    std::getline(std::ifstream(File(slot, ".json.arguments")), arguments);
    const std::string gpu = "--gpu|" + std::to_string(slot - 1) + "|";
    EXPECT_NE(arguments.find(gpu), std::string::npos) << arguments;
    EXPECT_EQ(arguments.find("--memory-bytes"), std::string::npos) << arguments;
  }
  const std::string arguments = Arguments(0);
  EXPECT_EQ(arguments.find("--gpu"), std::string::npos) << arguments;
  kill(pid_, SIGTERM);
  EXPECT_EQ(Wait(), 0);
}

// As a process that died young: the machine may be short of processes for a moment.
TEST_F(SupervisorTest, AWorkerThatCannotBeStartedIsTriedAgainSoon) {
  const std::string fault = "supervisor.spawn:once=" + dir_ + "/hit:error";
  setenv("COXSWAIN_FAULT", fault.c_str(), 1);
  Start("runs", 1);
  unsetenv("COXSWAIN_FAULT");
  EXPECT_GT(ReadyPid(0), 0);
  EXPECT_TRUE(support::ReadFile(dir_ + "/hit").starts_with("supervisor.spawn error "));
  kill(pid_, SIGTERM);
  EXPECT_EQ(Wait(), 0);
}

// Two supervisors on one host must not give two workers one number.
TEST_F(SupervisorTest, SlotsCountFromTheFirst) {
  first_slot_ = "4";
  Start("runs", 1, "30", 1);
  ASSERT_GT(ReadyPid(1), 0);
  const std::string arguments = Arguments(1);
  EXPECT_NE(arguments.find("--slot|5|"), std::string::npos) << arguments;
  EXPECT_NE(arguments.find("--gpu|0|"), std::string::npos) << arguments;
  EXPECT_NE(arguments.find("--listen|127.0.0.1:9001|"), std::string::npos) << arguments;
  kill(pid_, SIGTERM);
  EXPECT_EQ(Wait(), 0);
}

TEST_F(SupervisorTest, WorkersAreToldOfTheRelay) {
  Start("runs", 2);
  ASSERT_GT(ReadyPid(1), 0);
  EXPECT_NE(Arguments(1).find("--relay|127.0.0.1:"), std::string::npos) << Arguments(1);
  EXPECT_EQ(Arguments(1).find("--relay|127.0.0.1:0|"), std::string::npos) << Arguments(1);
  kill(pid_, SIGTERM);
  EXPECT_EQ(Wait(), 0);
}

TEST_F(SupervisorTest, ByDefaultTheRelayIsTwoPortsBelowTheFirstWorker) {
  relay_ = nullptr;
  Start("runs", 2);
  ASSERT_GT(ReadyPid(0), 0);
  EXPECT_NE(Arguments(0).find("--relay|127.0.0.1:8998|"), std::string::npos) << Arguments(0);
  kill(pid_, SIGTERM);
  EXPECT_EQ(Wait(), 0);
}

TEST_F(SupervisorTest, OneWorkerNeedsNoRelay) {
  relay_ = nullptr;
  Start("runs", 1);
  ASSERT_GT(ReadyPid(0), 0);
  EXPECT_EQ(Arguments(0).find("--relay"), std::string::npos) << Arguments(0);
  kill(pid_, SIGTERM);
  EXPECT_EQ(Wait(), 0);
}

TEST_F(SupervisorTest, NothingToRunIsABadConfiguration) {
  Start("runs", 0);
  EXPECT_EQ(Wait(), 64);
}

TEST_F(SupervisorTest, RestartsAWorkerThatDied) {
  Start("dies-once", 1);
  const pid_t again = ReadyPid(0);
  EXPECT_EQ(Starts(0), 2);
  kill(again, SIGKILL);
  EXPECT_TRUE(Eventually([&] { return Starts(0) == 3; }));
  kill(pid_, SIGINT);
  EXPECT_EQ(Wait(), 0);
}

TEST_F(SupervisorTest, EndsWithTheCodeThatForbidsARestart) {
  Start("exit-64", 2);
  EXPECT_EQ(Wait(), 64);
  EXPECT_EQ(Starts(0), 1);
  Start("exit-77", 1);
  EXPECT_EQ(Wait(), 77);
  Start("exit-0", 1);
  EXPECT_EQ(Wait(), 0);
}

// Who started it can tell a stop from the end of its work.
TEST_F(SupervisorTest, TheStoppedExitCodeStandsForASignalOnly) {
  Start("runs", 1, "30", 0, "75");
  ASSERT_GT(ReadyPid(0), 0);
  kill(pid_, SIGTERM);
  EXPECT_EQ(Wait(), 75);
  Start("exit-0", 1, "30", 0, "75");
  EXPECT_EQ(Wait(), 0);
  Start("exit-64", 1, "30", 0, "75");
  EXPECT_EQ(Wait(), 64);
}

// Invariant supervisor-2.
TEST_F(SupervisorTest, KillsAWorkerThatIgnoresSigtermAfterItsStacks) {
  Start("ignores-sigterm", 1, "0");
  const pid_t worker = ReadyPid(0);
  kill(pid_, SIGTERM);
  EXPECT_EQ(Wait(), 1);
  EXPECT_TRUE(Gone(worker));
  std::string first_line;
  std::getline(std::ifstream(File(0, ".stacks.txt")), first_line);
  EXPECT_EQ(first_line.find("stacks of process " + std::to_string(worker)), 0u) << first_line;
}

// Invariant supervisor-9.
TEST_F(SupervisorTest, KillsAWorkerThatStoppedAndStartsAnother) {
  silence_ = "1";
  Start("first-gives-signs", 2);
  const pid_t stopped = ReadyPid(0), quiet = ReadyPid(1);
  kill(stopped, SIGSTOP);
  EXPECT_TRUE(Gone(stopped));
  EXPECT_TRUE(Eventually([&] { return Starts(0) == 2; }));
  EXPECT_EQ(kill(quiet, 0), 0);  // it has given no sign yet
  EXPECT_EQ(Starts(1), 1);
  std::string first_line;
  std::getline(std::ifstream(File(0, ".stacks.txt")), first_line);
  EXPECT_EQ(first_line.find("stacks of process " + std::to_string(stopped)), 0u) << first_line;
  kill(pid_, SIGTERM);
  EXPECT_EQ(Wait(), 0);
}

// Also the only worker of a host, whose commands no relay carries.
TEST_F(SupervisorTest, KillsAWorkerOnTheControllersWordAndStartsAnother) {
  relay_ = nullptr;
  Start("registers", 1);
  const pid_t worker = ReadyPid(0);
  const std::string address = SupervisorAddress(0);
  EXPECT_EQ(address.rfind("127.0.0.1:", 0), 0u) << address;
  kill(worker, SIGSTOP);
  v1::Relay::Stub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  v1::EndWorkerRequest request;
  request.set_incarnation("i-" + std::to_string(worker));
  v1::EndWorkerResponse response;
  grpc::ClientContext context;
  const grpc::Status status = stub.EndWorker(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(Gone(worker));
  EXPECT_TRUE(Eventually([&] { return Starts(0) == 2; }));
  kill(pid_, SIGTERM);
  EXPECT_EQ(Wait(), 0);
}

// Invariant supervisor-10.
TEST_F(SupervisorTest, ReadsTheStacksOfAWorkerThatIsStoppedAndLeavesItAlone) {
  Start("registers", 2);
  const pid_t worker = ReadyPid(1);
  kill(worker, SIGSTOP);
  ASSERT_TRUE(Eventually([&] { return ReadProcess(worker)->state == "T (stopped)"; }));
  v1::Relay::Stub stub(
      grpc::CreateChannel(SupervisorAddress(1), grpc::InsecureChannelCredentials()));
  v1::StacksRequest request;
  request.set_slot(1);
  request.set_incarnation("i-" + std::to_string(worker));
  request.set_limit_ms(20'000);
  request.set_most_bytes(65'536);
  const auto ask = [&](v1::StacksResponse* response) {
    grpc::ClientContext context;
    return stub.Stacks(&context, request, response);
  };
  v1::StacksResponse response;
  const grpc::Status status = ask(&response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.text().find("stacks of process " + std::to_string(worker)), 0u);
  EXPECT_EQ(response.process().state(), "T (stopped)");
  EXPECT_EQ(response.process().pid(), worker);
  EXPECT_GT(response.process().resident_bytes(), 0);
  EXPECT_EQ(ReadProcess(worker)->state, "T (stopped)");
  EXPECT_EQ(Starts(1), 1);
  request.set_incarnation("i-1");
  EXPECT_EQ(ask(&response).error_code(), grpc::StatusCode::NOT_FOUND);
  request.set_limit_ms(0);
  EXPECT_EQ(ask(&response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  kill(worker, SIGCONT);
  kill(pid_, SIGTERM);
  EXPECT_EQ(Wait(), 0);
}

// Invariant supervisor-3.
TEST_F(SupervisorTest, WorkersDieWithTheSupervisor) {
  Start("ignores-sigterm", 2);
  const pid_t first = ReadyPid(0), second = ReadyPid(1);
  kill(pid_, SIGKILL);
  Wait();
  EXPECT_TRUE(Gone(first));
  EXPECT_TRUE(Gone(second));
}

TEST_F(SupervisorTest, SigquitWritesStacksAndEndsNothing) {
  Start("runs", 1);
  const pid_t worker = ReadyPid(0);
  kill(pid_, SIGQUIT);
  EXPECT_TRUE(Eventually([&] {
    return std::filesystem::exists(File(0, ".stacks.txt")) &&
           std::filesystem::file_size(File(0, ".stacks.txt")) > 0;
  }));
  EXPECT_EQ(kill(worker, 0), 0);
  kill(pid_, SIGTERM);
  EXPECT_EQ(Wait(), 0);
}

}  // namespace
}  // namespace coxswain::supervisor
