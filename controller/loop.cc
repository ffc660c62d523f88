#include "controller/loop.h"

#include <sys/resource.h>
#include <unistd.h>

#include <limits>

namespace coxswain {
namespace {

// Long work takes every core it gets; decisions and gRPC threads go before it. Threads that the
// work starts inherit this.
constexpr int kPoolNiceness = 10;

}  // namespace

Loop::Loop(const Clock* clock, int pool_threads) : clock_(clock) {
  for (int i = 0; i < pool_threads; ++i) pool_.emplace_back([this] { PoolThread(); });
}

Loop::~Loop() {
  {
    std::lock_guard lock(pool_mu_);
    pool_stopped_ = true;
  }
  pool_wake_.notify_all();
  for (std::thread& thread : pool_) thread.join();
}

void Loop::Post(Task task) {
  {
    std::lock_guard lock(mu_);
    tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
}

void Loop::Offload(Task work, Task done) {
  if (pool_.empty()) {
    Post([work = std::move(work), done = std::move(done)] {
      work();
      done();
    });
    return;
  }
  {
    std::lock_guard lock(pool_mu_);
    pool_work_.emplace_back(std::move(work), std::move(done));
  }
  pool_wake_.notify_one();
}

void Loop::PoolThread() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kPoolNiceness);
  std::unique_lock lock(pool_mu_);
  while (true) {
    pool_wake_.wait(lock, [this] { return pool_stopped_ || !pool_work_.empty(); });
    if (pool_stopped_) return;
    auto [work, done] = std::move(pool_work_.front());
    pool_work_.pop_front();
    lock.unlock();
    work();
    Post(std::move(done));
    lock.lock();
  }
}

Loop::TimerId Loop::After(std::chrono::milliseconds delay, Task task) {
  const int64_t due =
      clock_->NowNs() + std::chrono::duration_cast<std::chrono::nanoseconds>(delay).count();
  const TimerId id = next_timer_++;
  timers_.emplace(std::make_pair(due, id), std::move(task));
  timer_due_.emplace(id, due);
  return id;
}

void Loop::CancelTimer(TimerId id) {
  const auto it = timer_due_.find(id);
  if (it == timer_due_.end()) return;
  timers_.erase({it->second, id});
  timer_due_.erase(it);
}

int64_t Loop::NextTimerNs() const {
  return timers_.empty() ? std::numeric_limits<int64_t>::max() : timers_.begin()->first.first;
}

bool Loop::RunReady() {
  bool ran = false;
  while (!timers_.empty() && timers_.begin()->first.first <= clock_->NowNs()) {
    auto node = timers_.extract(timers_.begin());
    timer_due_.erase(node.key().second);
    node.mapped()();
    ran = true;
  }
  std::deque<Task> batch;
  {
    std::lock_guard lock(mu_);
    batch.swap(tasks_);
  }
  for (Task& task : batch) task();
  return ran || !batch.empty();
}

void Loop::Run() {
  while (true) {
    RunReady();
    std::unique_lock lock(mu_);
    if (stopped_) return;
    if (!tasks_.empty()) continue;
    const int64_t due = NextTimerNs();
    const auto ready = [this] { return stopped_ || !tasks_.empty(); };
    if (due == std::numeric_limits<int64_t>::max()) {
      wake_.wait(lock, ready);
    } else {
      const int64_t wait_ns = due - clock_->NowNs();
      if (wait_ns > 0) wake_.wait_for(lock, std::chrono::nanoseconds(wait_ns), ready);
    }
  }
}

void Loop::Stop() {
  {
    std::lock_guard lock(mu_);
    stopped_ = true;
  }
  wake_.notify_all();
}

}  // namespace coxswain
