// Who gets workers next, as a pure function: priority, then order of submission, all-or-nothing.
#ifndef COXSWAIN_CONTROLLER_SCHEDULER_ADMISSION_H_
#define COXSWAIN_CONTROLLER_SCHEDULER_ADMISSION_H_

#include <cstdint>
#include <string>
#include <vector>

namespace coxswain::scheduler {

struct QueueEntry {
  std::string job;
  int64_t priority = 0;   // higher first
  int64_t order = 0;      // of submission
  std::string device;     // "cpu" | "cuda"
  int64_t workers = 1;    // gang size
};

struct WorkerPool {
  std::string device;
  int64_t free = 0;
  int64_t living = 0;     // free or busy
};

// Orders `queue` (priority, then submission) and returns the jobs to admit now. A job waits for all
// its workers at once. One that waits keeps the workers of its kind from jobs behind it, unless more
// workers than are living would be needed: then those behind it go first.
std::vector<std::string> Admit(std::vector<QueueEntry> queue, std::vector<WorkerPool> pools);

// In the order Admit considers them.
void SortQueue(std::vector<QueueEntry>* queue);

}  // namespace coxswain::scheduler

#endif  // COXSWAIN_CONTROLLER_SCHEDULER_ADMISSION_H_
