// Threads for slow work, in lanes. The loop does not wait for them. A full lane delays no other.
#ifndef COXSWAIN_CONTROLLER_RUNTIME_LANES_H_
#define COXSWAIN_CONTROLLER_RUNTIME_LANES_H_

#include <array>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"

namespace coxswain {

enum class Lane {
  kFiles,        // what jobs that run wait for: checkpoints, plans of gangs, files beside them
  kPreparation,  // data of jobs: minutes, on every core
  kExport,       // artifacts of jobs: minutes
  kPlans,        // plans that users ask for: a preparation each
  kRequests,     // short reads for users
  kNames,        // questions to the Hub: seconds, or as long as it does not answer
  kTransfers,    // models, datasets and exports on their way from and to the Hub: hours of waiting
  kStore,        // what jobs have told, on its way to the store: one commit at a time
  kTrackers,     // curves of jobs for other tools: a folder may take as long as it likes
};
inline constexpr size_t kNumLanes = 9;

// Work of a lane starts in the order in which it was given. With several threads it may end in
// another order; nothing relies on that.
class Lanes {
 public:
  Lanes();
  ~Lanes();  // waits for what has started; the rest is dropped
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  void Run(Lane lane, std::function<void()> work);  // any thread

  static int ThreadsOf(Lane lane);

 private:
  struct Queue {
    Mutex mu;
    CondVar wake;
    std::deque<std::function<void()>> work ABSL_GUARDED_BY(mu);
    bool stopped ABSL_GUARDED_BY(mu) = false;
    std::vector<std::thread> threads;
  };
  void Serve(Queue& queue, int niceness);

  std::array<Queue, kNumLanes> queues_;
};

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_RUNTIME_LANES_H_
