#include "worker/supervisor/health.h"

#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "common/net/health_check.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::supervisor {
namespace {

using std::chrono::milliseconds;

class HealthTest : public testing::Test {
 protected:
  void Start(milliseconds stall_limit) {
    auto health = Health::Start("127.0.0.1:0", dir_, stall_limit);
    ASSERT_TRUE(health.ok()) << health.status();
    health_ = *std::move(health);
  }
  void WriteEndpoint(int slot, pid_t pid, bool registered) {
    std::ofstream(dir_ + "/worker-" + std::to_string(slot) + ".json")
        << "{\"pid\": " << pid << ", \"registered\": " << (registered ? "true" : "false") << "}";
  }
  // Whether `service` answers so before a deadline, while the loop turns over `pids`.
  bool Becomes(const char* service, bool serving, const std::vector<pid_t>* pids) {
    const auto deadline = std::chrono::steady_clock::now() + milliseconds(20000);
    while (std::chrono::steady_clock::now() < deadline) {
      if (pids != nullptr) health_->Turn(*pids);
      const auto now = CheckHealth(health_->address(), service, milliseconds(20000));
      EXPECT_TRUE(now.ok()) << now.status();
      if (now.ok() && *now == serving) return true;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return false;
  }

  const support::ScratchFolder folder_;
  const std::string dir_ = folder_.path();
  std::unique_ptr<Health> health_;
};

TEST_F(HealthTest, WorkersServeOnceEachIsRegisteredUnderItsOwnPid) {
  Start(milliseconds(60000));
  const std::vector<pid_t> pids = {101, 102};
  EXPECT_EQ(CheckHealth(health_->address(), "coxswain.v1.Worker", milliseconds(20000)).value(),
            false);
  WriteEndpoint(0, 101, true);
  WriteEndpoint(1, 102, true);
  EXPECT_TRUE(Becomes("coxswain.v1.Worker", true, &pids));
  WriteEndpoint(1, 102, false);  // it lost the controller
  EXPECT_TRUE(Becomes("coxswain.v1.Worker", false, &pids));
  WriteEndpoint(1, 102, true);
  EXPECT_TRUE(Becomes("coxswain.v1.Worker", true, &pids));
  const std::vector<pid_t> restarted = {101, 103};  // the file is that of the process before
  EXPECT_TRUE(Becomes("coxswain.v1.Worker", false, &restarted));
  EXPECT_TRUE(Becomes("coxswain.v1.Supervisor", true, &restarted));
}

// Invariant supervisor-5.
TEST_F(HealthTest, ALoopThatHangsIsNotAliveAndATurnRevivesIt) {
  Start(milliseconds(1000));
  EXPECT_TRUE(Becomes("coxswain.v1.Supervisor", false, nullptr));
  const std::vector<pid_t> pids = {0};
  EXPECT_TRUE(Becomes("coxswain.v1.Supervisor", true, &pids));
}

}  // namespace
}  // namespace coxswain::supervisor
