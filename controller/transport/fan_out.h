// A few threads that share the work of telling many workers the same thing.
#ifndef COXSWAIN_CONTROLLER_TRANSPORT_FAN_OUT_H_
#define COXSWAIN_CONTROLLER_TRANSPORT_FAN_OUT_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace coxswain {

class FanOut {
 public:
  // `threads` beside the caller's; 0: the caller does everything.
  explicit FanOut(int threads);
  ~FanOut();
  FanOut(const FanOut&) = delete;
  FanOut& operator=(const FanOut&) = delete;

  // As many as are worth while on this host: half of its cores, the caller's included, at most 8.
  static int DefaultThreads();

  // Calls fn(begin, end) on short ranges that together are [0, count), on the caller and the
  // threads, and returns when all have returned. One caller at a time. A small count stays on the
  // caller: waking a thread costs more than it saves.
  void ForAll(int count, const std::function<void(int begin, int end)>& fn);

 private:
  void Thread();
  void Take(std::unique_lock<std::mutex>& lock);  // runs chunks until none is left

  std::mutex mu_;
  std::condition_variable wake_, finished_;
  const std::function<void(int, int)>* fn_ = nullptr;
  int count_ = 0;
  int next_ = 0;     // first index nobody has taken
  int pending_ = 0;  // indices not yet returned
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_TRANSPORT_FAN_OUT_H_
