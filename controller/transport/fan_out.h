// A few threads that share the work of telling many workers the same thing.
#ifndef COXSWAIN_CONTROLLER_TRANSPORT_FAN_OUT_H_
#define COXSWAIN_CONTROLLER_TRANSPORT_FAN_OUT_H_

#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"

namespace coxswain {

class FanOut {
 public:
  // `threads` beside the caller's; 0: the caller does everything.
  explicit FanOut(int threads);
  ~FanOut();
  FanOut(const FanOut&) = delete;
  FanOut& operator=(const FanOut&) = delete;

  // As many threads as are worth while on this host: half of its cores, the caller's included, at
  // most 8.
  static int DefaultThreads();

  // Calls fn(begin, end) on short ranges that together are [0, count), on the caller and the
  // threads, and returns when all have returned. One caller at a time. A small count stays on the
  // caller: waking a thread costs more than it saves.
  void ForAll(int count, const std::function<void(int begin, int end)>& fn);

 private:
  void Thread();
  // Runs chunks until none is left, without mu_ meanwhile.
  void Take() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Mutex mu_;
  CondVar wake_, finished_;
  const std::function<void(int, int)>* fn_ ABSL_GUARDED_BY(mu_) = nullptr;
  int count_ ABSL_GUARDED_BY(mu_) = 0;
  int next_ ABSL_GUARDED_BY(mu_) = 0;     // first index nobody has taken
  int pending_ ABSL_GUARDED_BY(mu_) = 0;  // indices not yet returned
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_TRANSPORT_FAN_OUT_H_
