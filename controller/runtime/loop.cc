#include "controller/runtime/loop.h"

#include <algorithm>
#include <limits>

#include "common/guarded.h"
#include "common/logging.h"

namespace coxswain {

namespace {

// The net below all of them: what expects an exception takes it itself, by Guarded.
void RunCaught(const char* where, const Loop::Task& task) {
  const absl::Status thrown = Guarded([&task] {
    task();
    return absl::OkStatus();
  });
  if (thrown.ok()) return;
  log::Error("bug: an exception was thrown where none is expected; the controller goes on",
             {{"where", where}, {"error", std::string(thrown.message())}});
}

}  // namespace

Loop::Loop(const Clock* clock, Offloading offloading)
    : clock_(clock), attended_ns_(clock->NowNs()) {
  if (offloading == Offloading::kToLanes) lanes_.emplace();
}

Loop::Loop(const Clock* clock, Offloader offloader)
    : clock_(clock), attended_ns_(clock->NowNs()), offloader_(std::move(offloader)) {}

Loop::~Loop() = default;

void Loop::Post(Task task) {
  {
    MutexLock lock(mu_);
    tasks_.push_back(std::move(task));
  }
  wake_.NotifyOne();
}

void Loop::Offload(Lane lane, Task work, Task done) {
  if (offloader_) {
    offloader_(lane, std::move(work), std::move(done));
    return;
  }
  if (!lanes_) {
    Post([work = std::move(work), done = std::move(done)] {
      RunCaught("a lane", work);
      done();
    });
    return;
  }
  lanes_->Run(lane, [this, work = std::move(work), done = std::move(done)]() mutable {
    RunCaught("a lane", work);
    Post(std::move(done));  // what it holds belongs to the loop
  });
}

Loop::TimerId Loop::Set(int64_t due_ns, TimerId id, Timer timer) {
  timers_.emplace(std::make_pair(due_ns, id), std::move(timer));
  timer_due_[id] = due_ns;
  return id;
}

Loop::TimerId Loop::After(std::chrono::milliseconds delay, Task task) {
  const int64_t delay_ns = std::chrono::nanoseconds(delay).count();
  return Set(clock_->NowNs() + delay_ns, next_timer_++, {.task = std::move(task)});
}

Loop::TimerId Loop::Deadline(std::chrono::milliseconds delay, Task task) {
  const int64_t delay_ns = std::chrono::nanoseconds(delay).count();
  return Set(clock_->NowNs() + delay_ns, next_timer_++,
             {.task = std::move(task), .waits_out_stalls = true, .stalled_ns = stalled_ns_});
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

// The loop is there: counts the time since it last was, if that is a stall, and returns the time.
int64_t Loop::Attend() {
  const int64_t now_ns = clock_->NowNs();
  const int64_t away_ns = now_ns - attended_ns_;
  attended_ns_ = now_ns;
  if (away_ns > std::chrono::nanoseconds(kStall).count()) {
    stalled_ns_ += away_ns;
    if (on_stall_) on_stall_(static_cast<double>(away_ns) * 1e-9);
  }
  return now_ns;
}

void Loop::Do(const Task& task) {
  RunCaught("the loop", task);
  if (on_task_) on_task_();
}

bool Loop::RunReady() {
  // With nothing to do it was free until its next timer fell due.
  attended_ns_ = std::max(attended_ns_, std::min(NextTimerNs(), clock_->NowNs()));
  Attend();
  std::deque<Task> batch;
  {
    MutexLock lock(mu_);
    batch.swap(tasks_);
  }
  for (Task& task : batch) {
    Do(task);
    Attend();
  }
  bool ran = !batch.empty();
  while (NextTimerNs() <= Attend()) {
    auto node = timers_.extract(timers_.begin());
    const auto [due_ns, id] = node.key();
    Timer& timer = node.mapped();
    ran = true;
    if (timer.waits_out_stalls && timer.stalled_ns < stalled_ns_) {
      const int64_t later_ns = stalled_ns_ - std::exchange(timer.stalled_ns, stalled_ns_);
      Set(due_ns + later_ns, id, std::move(timer));
      continue;
    }
    timer_due_.erase(id);
    Do(timer.task);
  }
  return ran;
}

void Loop::Run() {
  attended_ns_ = clock_->NowNs();
  while (true) {
    RunReady();
    MutexLock lock(mu_);
    if (stopped_) return;
    if (!tasks_.empty()) continue;
    const int64_t due = NextTimerNs();
    const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return stopped_ || !tasks_.empty();
    };
    if (due == std::numeric_limits<int64_t>::max()) {
      wake_.Wait(lock, ready);
    } else {
      const int64_t wait_ns = due - clock_->NowNs();
      if (wait_ns > 0) wake_.WaitFor(lock, std::chrono::nanoseconds(wait_ns), ready);
    }
  }
}

void Loop::Stop() {
  {
    MutexLock lock(mu_);
    stopped_ = true;
  }
  wake_.NotifyAll();
}

}  // namespace coxswain
