#include "worker/agent/life_sign.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <utility>

namespace coxswain::agent {
namespace {

constexpr std::chrono::seconds kPeriod{1};

}  // namespace

LifeSign::LifeSign(int fd) : fd_(fd) {
  if (fd_ < 0) return;
  (void)fcntl(fd_, F_SETFD, FD_CLOEXEC);  // of this process alone
  thread_ = std::thread([this] { Beat(); });
}

LifeSign::~LifeSign() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void LifeSign::Follow(std::function<void()> look) {
  MutexLock lock(looking_);
  look_ = std::move(look);
}

void LifeSign::Beat() {
  MutexLock lock(mu_);
  do {
    lock.Unlock();
    {
      MutexLock looking(looking_);
      if (look_) look_();
    }
    // A full pipe has bytes enough; a supervisor that is gone has ended this process.
    [[maybe_unused]] const ssize_t written = write(fd_, "", 1);
    lock.Lock();
  } while (!changed_.WaitFor(lock, kPeriod,
                             [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return stopping_; }));
}

}  // namespace coxswain::agent
