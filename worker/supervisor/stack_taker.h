// Reads the native stacks of worker processes beside what else the supervisor does.
#ifndef COXSWAIN_WORKER_SUPERVISOR_STACK_TAKER_H_
#define COXSWAIN_WORKER_SUPERVISOR_STACK_TAKER_H_

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"

namespace coxswain::supervisor {

// A debugger holds a process alone, so who asks while one is being read gets what that reading
// gives; different processes are read at the same time, kMostAtOnce by debuggers, each by a thread
// of its own. A `done` calls
// nothing of this class.
class StackTaker {
 public:
  static constexpr int kMostAtOnce = 8;  // a debugger takes some 100 MB
  using Done = std::function<void(const std::string& text)>;

  ~StackTaker();  // waits for the readings in progress

  // Any thread. `done` gets NativeStacks(pid, limit) on another thread, once.
  void Take(pid_t pid, std::chrono::milliseconds limit, Done done);
  // Does the same, and waits.
  std::string TakeNow(pid_t pid, std::chrono::milliseconds limit);

 private:
  struct Reading {
    std::thread thread;
    std::vector<Done> waiting;
    bool over = false;
  };

  void Read(pid_t pid, std::chrono::milliseconds limit);
  // What is left of the limit when this reading may begin, 0 where it may not.
  std::chrono::milliseconds AwaitTurn(std::chrono::milliseconds limit);
  void JoinEnded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Mutex mu_;
  CondVar ended_;
  int reading_ ABSL_GUARDED_BY(mu_) = 0;  // that have their turn
  std::map<pid_t, Reading> readings_ ABSL_GUARDED_BY(mu_);
};

}  // namespace coxswain::supervisor

#endif  // COXSWAIN_WORKER_SUPERVISOR_STACK_TAKER_H_
