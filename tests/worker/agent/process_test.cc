// The worker's main over the fake engine, as a process: exit codes, signals, endpoint file.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/net/grpc_endpoint.h"
#include "tests/support/eventually.h"
#include "tests/support/scratch_folder.h"
#include "tests/worker/agent/test_gang.h"

namespace coxswain::agent {
namespace {

using support::Eventually;

class ProcessTest : public testing::Test {
 protected:
  ~ProcessTest() override {
    if (pid_ > 0) kill(pid_, SIGKILL);
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
  }

  void Start(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "coxswain-worker-cpu");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      signal(SIGPIPE, SIG_DFL);  // whatever the tests were started with
      const int err = open((dir_ + "/stderr").c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
      dup2(err, STDERR_FILENO);
      execv(COXSWAIN_FAKE_WORKER, argv.data());
      _exit(127);
    }
  }
  // With a registry and ephemeral ports; waits until it serves.
  void StartServing(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {
        "--controller",    registry_.address(), "--listen",  "127.0.0.1:0",
        "--metrics",       "127.0.0.1:0",       "--threads", "1",
        "--endpoint-file", Endpoint(),          "--open"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Start(arguments);
    ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(Endpoint()); }));
    ASSERT_TRUE(Eventually([&] { return registry_.beats() > 0; }));
  }
  std::string Endpoint() const { return dir_ + "/endpoint.json"; }
  int Wait() {
    int status = 0;
    EXPECT_TRUE(Eventually([&] { return waitpid(pid_, &status, WNOHANG) == pid_; }));
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }
  std::string Stderr() const {
    std::ifstream in(dir_ + "/stderr");
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

  TestRegistry registry_;
  const support::ScratchFolder folder_;
  const std::string dir_ = folder_.path();
  pid_t pid_ = -1;
};

TEST_F(ProcessTest, BadConfigurationExits64) {
  Start({});
  EXPECT_EQ(Wait(), 64);
  EXPECT_NE(Stderr().find("--controller"), std::string::npos) << Stderr();
  Start({"--controller", "127.0.0.1:1", "--threads", "0"});
  EXPECT_EQ(Wait(), 64);
  Start({"--controller", "127.0.0.1:1", "--listen", "0.0.0.0:0"});
  EXPECT_EQ(Wait(), 64);
  EXPECT_NE(Stderr().find("--tls-cert"), std::string::npos) << Stderr();
}

TEST_F(ProcessTest, AHostIdIsTheNameOfTheHost) {
  Start({"--controller", "127.0.0.1:1", "--host-id", "rack 7/a"});
  EXPECT_EQ(Wait(), 64);
  EXPECT_NE(Stderr().find("'rack 7/a' is no name for a host"), std::string::npos) << Stderr();
  StartServing({"--host-id", "rack-7.a"});
  EXPECT_EQ(registry_.registrations().back().host(), "rack-7.a");
}

// As the supervisor reads them; stopped, a process gives none, and goes on giving them afterwards.
TEST_F(ProcessTest, GivesSignsOfLife) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  const auto heard = [&] {
    char bytes[64];
    return read(ends[0], bytes, sizeof(bytes)) > 0;
  };
  StartServing({"--life-sign", std::to_string(ends[1])});
  EXPECT_TRUE(Eventually(heard));
  kill(pid_, SIGSTOP);
  int status = 0;
  ASSERT_EQ(waitpid(pid_, &status, WUNTRACED), pid_);
  while (heard()) continue;
  EXPECT_FALSE(heard());
  kill(pid_, SIGCONT);
  EXPECT_TRUE(Eventually(heard));
  kill(pid_, SIGTERM);
  EXPECT_EQ(Wait(), 0);
  close(ends[0]);
  close(ends[1]);
}

// Gloo writes to it without asking for an error instead of the signal. Without metrics, whose
// server ignores the signal for the whole process.
TEST_F(ProcessTest, ARankThatIsGoneEndsNoOther) {
  Start({"--controller", registry_.address(), "--listen", "127.0.0.1:0", "--metrics", ""});
  ASSERT_TRUE(Eventually([&] { return registry_.beats() > 0; }));
  kill(pid_, SIGPIPE);
  kill(pid_, SIGTERM);
  EXPECT_EQ(Wait(), 0);
}

TEST_F(ProcessTest, PortInUseExits1NamingIt) {
  Start({"--controller", "127.0.0.1:1", "--listen", registry_.address()});
  EXPECT_EQ(Wait(), 1);
  EXPECT_NE(Stderr().find(registry_.address() + " cannot be bound: Address already in use"),
            std::string::npos)
      << Stderr();
}

TEST_F(ProcessTest, RefusalOfTheControllerExits77) {
  registry_.RefuseWith(grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "another build"));
  Start({"--controller", registry_.address(), "--listen", "127.0.0.1:0", "--metrics", ""});
  EXPECT_EQ(Wait(), 77);
}

TEST_F(ProcessTest, IdleWorkerExits0OnSigtermAndOnSigint) {
  for (const int signal : {SIGTERM, SIGINT}) {
    StartServing();
    const auto endpoint = nlohmann::json::parse(std::ifstream(Endpoint()));
    EXPECT_EQ(endpoint["pid"], pid_);
    ASSERT_TRUE(Eventually(
        [&] { return registry_.registrations().back().address() == endpoint["address"]; }));
    EXPECT_EQ(registry_.registrations().back().threads(), 1);
    kill(pid_, signal);
    EXPECT_EQ(Wait(), 0);
    EXPECT_FALSE(std::filesystem::exists(Endpoint()));
  }
}

TEST_F(ProcessTest, SigtermInAnEpochWaitsForTheControllerASecondDoesNot) {
  StartServing();
  const v1::RegisterRequest hello = registry_.registrations().back();
  TestRank rank(hello.address(), hello.incarnation(), 0, 1);
  ASSERT_EQ(rank.Prepare().status(), absl::OkStatus());
  kill(pid_, SIGTERM);
  ASSERT_TRUE(Eventually([&] { return registry_.last_beat()->draining(); }));
  EXPECT_EQ(waitpid(pid_, nullptr, WNOHANG), 0);
  kill(pid_, SIGTERM);
  EXPECT_EQ(Wait(), 128 + SIGTERM);
}

}  // namespace
}  // namespace coxswain::agent
