#include "controller/runtime/lanes.h"

#include <sys/resource.h>
#include <unistd.h>

#include <utility>

namespace coxswain {
namespace {

// Decisions and gRPC threads go before all of them; what a running job waits for goes before what
// takes every core for minutes. Threads that the work starts inherit the niceness.
struct LaneShape {
  int threads;
  int niceness;  // added to that of the thread that makes the lanes
};
constexpr std::array<LaneShape, kNumLanes> kShapes = {{
    {.threads = 8, .niceness = 5},    // kFiles: they mostly wait for storage
    {.threads = 4, .niceness = 10},   // kPreparation
    {.threads = 2, .niceness = 10},   // kExport
    {.threads = 2, .niceness = 10},   // kPlans
    {.threads = 2, .niceness = 5},    // kRequests
    {.threads = 8, .niceness = 5},    // kNames
    {.threads = 16, .niceness = 10},  // kTransfers: one that waits for the Hub delays no other job
    {.threads = 1, .niceness = 0},    // kStore: the loop may come to wait for it
    {.threads = 4, .niceness = 10},   // kTrackers
}};

size_t Index(Lane lane) { return static_cast<size_t>(lane); }

}  // namespace

int Lanes::ThreadsOf(Lane lane) { return kShapes[Index(lane)].threads; }

Lanes::Lanes() {
  for (size_t lane = 0; lane < kNumLanes; ++lane) {
    Queue& queue = queues_[lane];
    for (int i = 0; i < kShapes[lane].threads; ++i) {
      queue.threads.emplace_back([this, &queue, lane] { Serve(queue, kShapes[lane].niceness); });
    }
  }
}

Lanes::~Lanes() {
  for (Queue& queue : queues_) {
    MutexLock lock(queue.mu);
    queue.stopped = true;
    queue.wake.NotifyAll();
  }
  for (Queue& queue : queues_) {
    for (std::thread& thread : queue.threads) thread.join();
  }
}

void Lanes::Run(Lane lane, std::function<void()> work) {
  Queue& queue = queues_[Index(lane)];
  MutexLock lock(queue.mu);
  queue.work.push_back(std::move(work));
  queue.wake.NotifyOne();
}

void Lanes::Serve(Queue& queue, int niceness) {
  const auto thread = static_cast<id_t>(gettid());
  setpriority(PRIO_PROCESS, thread, getpriority(PRIO_PROCESS, thread) + niceness);
  MutexLock lock(queue.mu);
  while (true) {
    queue.wake.Wait(lock, [&queue]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue.mu) {
      return queue.stopped || !queue.work.empty();
    });
    if (queue.stopped) return;
    {
      std::function<void()> work = std::move(queue.work.front());
      queue.work.pop_front();
      lock.Unlock();
      work();
    }
    lock.Lock();
  }
}

}  // namespace coxswain
