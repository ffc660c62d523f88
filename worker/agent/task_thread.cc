#include "worker/agent/task_thread.h"

#include <utility>

namespace coxswain::agent {

TaskThread::TaskThread() : thread_([this] { Loop(); }) {}

TaskThread::~TaskThread() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void TaskThread::Post(std::function<void()> task) {
  std::lock_guard<std::mutex> lock(mu_);
  tasks_.push_back(std::move(task));
  ++posted_;
  changed_.notify_all();
}

bool TaskThread::WaitIdle(std::chrono::milliseconds timeout) {
  std::unique_lock<std::mutex> lock(mu_);
  const uint64_t target = posted_;
  return changed_.wait_for(lock, timeout, [&] { return finished_ >= target; });
}

void TaskThread::Loop() {
  std::unique_lock<std::mutex> lock(mu_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;  // what it captured is gone before it counts as finished
    lock.lock();
    ++finished_;
    changed_.notify_all();
  }
}

}  // namespace coxswain::agent
