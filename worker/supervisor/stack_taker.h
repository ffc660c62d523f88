// Reads the native stacks of worker processes while the supervisor does other work.
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

// Only one debugger can hold a process. A caller who asks while the process is being read gets the
// result of that reading. Different processes are read at the same time, each on its own thread, at
// most kMostAtOnce by debuggers. A `done` must call nothing of this class.
class StackTaker {
 public:
  static constexpr int kMostAtOnce = 8;  // a debugger takes some 100 MB
  using Done = std::function<void(const std::string& text)>;

  ~StackTaker();  // waits for the readings in progress

  // Any thread. Calls `done` once with NativeStacks(pid, limit), on another thread.
  void Take(pid_t pid, std::chrono::milliseconds limit, Done done);
  // As Take, and waits for the text.
  std::string TakeNow(pid_t pid, std::chrono::milliseconds limit);

 private:
  struct Reading {
    std::thread thread;
    std::vector<Done> waiting;
    bool over = false;
  };

  void Read(pid_t pid, std::chrono::milliseconds limit);
  // Waits for a turn. Returns the rest of the limit when this reading may begin, 0 when it may not.
  std::chrono::milliseconds AwaitTurn(std::chrono::milliseconds limit);
  void JoinEnded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Mutex mu_;
  CondVar ended_;
  int reading_ ABSL_GUARDED_BY(mu_) = 0;  // number of readings that have their turn
  std::map<pid_t, Reading> readings_ ABSL_GUARDED_BY(mu_);
};

}  // namespace coxswain::supervisor

#endif  // COXSWAIN_WORKER_SUPERVISOR_STACK_TAKER_H_
