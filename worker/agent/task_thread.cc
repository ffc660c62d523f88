#include "worker/agent/task_thread.h"

#include <utility>

namespace coxswain::agent {

TaskThread::TaskThread() : thread_([this] { Loop(); }) {}

TaskThread::~TaskThread() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void TaskThread::Post(std::function<void()> task) {
  MutexLock lock(mu_);
  tasks_.push_back(std::move(task));
  ++posted_;
  changed_.NotifyAll();
}

bool TaskThread::WaitIdle(std::chrono::milliseconds timeout) {
  MutexLock lock(mu_);
  const uint64_t target = posted_;
  return changed_.WaitFor(lock, timeout,
                          [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return finished_ >= target; });
}

void TaskThread::Loop() {
  MutexLock lock(mu_);
  while (true) {
    changed_.Wait(
        lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.Unlock();
    task();
    task = nullptr;  // what it captured is gone before it counts as finished
    lock.Lock();
    ++finished_;
    changed_.NotifyAll();
  }
}

}  // namespace coxswain::agent
