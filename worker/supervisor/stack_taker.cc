#include "worker/supervisor/stack_taker.h"

#include <algorithm>
#include <future>
#include <memory>
#include <utility>

#include "worker/supervisor/stacks.h"

namespace coxswain::supervisor {

StackTaker::~StackTaker() {
  std::map<pid_t, Reading> readings;
  {
    MutexLock lock(mu_);
    for (auto& [pid, reading] : readings_) readings[pid].thread = std::move(reading.thread);
  }
  for (auto& [pid, reading] : readings) reading.thread.join();
}

// A thread that is over has left mu_ for good: it is joined at once.
void StackTaker::JoinEnded() {
  for (auto it = readings_.begin(); it != readings_.end();) {
    if (!it->second.over) {
      ++it;
      continue;
    }
    it->second.thread.join();
    it = readings_.erase(it);
  }
}

void StackTaker::Take(pid_t pid, std::chrono::milliseconds limit, Done done) {
  MutexLock lock(mu_);
  JoinEnded();
  Reading& reading = readings_[pid];
  reading.waiting.push_back(std::move(done));
  if (reading.thread.joinable()) return;
  reading.thread = std::thread([this, pid, limit] { Read(pid, limit); });
}

std::chrono::milliseconds StackTaker::AwaitTurn(std::chrono::milliseconds limit) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + limit;
  MutexLock lock(mu_);
  const bool has_turn = ended_.WaitFor(
      lock, limit, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return reading_ < kMostAtOnce; });
  if (!has_turn) return std::chrono::milliseconds(0);
  ++reading_;
  return std::max(std::chrono::milliseconds(1),
                  std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()));
}

void StackTaker::Read(pid_t pid, std::chrono::milliseconds limit) {
  const std::chrono::milliseconds left = AwaitTurn(limit);
  const std::string text = NativeStacks(pid, left);
  std::vector<Done> waiting;
  {
    MutexLock lock(mu_);
    if (left.count() > 0) --reading_;
    ended_.NotifyAll();
    waiting = std::move(readings_[pid].waiting);
    readings_[pid].over = true;
  }
  for (const Done& done : waiting) done(text);
}

std::string StackTaker::TakeNow(pid_t pid, std::chrono::milliseconds limit) {
  auto text = std::make_shared<std::promise<std::string>>();
  auto taken = text->get_future();
  Take(pid, limit, [text](const std::string& stacks) { text->set_value(stacks); });
  return taken.get();
}

}  // namespace coxswain::supervisor
