// Decides which job gets which free workers next. Pure. Gangs that recover go first, then priority,
// then order of submission. A job gets all its workers or none.
#ifndef COXSWAIN_CONTROLLER_SCHEDULER_ADMISSION_H_
#define COXSWAIN_CONTROLLER_SCHEDULER_ADMISSION_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace coxswain::scheduler {

struct QueueEntry {
  std::string job;
  int64_t priority = 0;  // higher first
  int64_t order = 0;     // of submission
  std::string device;    // "cpu" | "cuda"
  int64_t workers = 1;   // gang size
  bool keeps = false;    // a gang that recovers: it keeps its place and its free workers
  bool ready = true;     // false, with `keeps`: not to be admitted now
};

struct WorkerPool {
  std::string device;
  std::vector<std::string> free;  // of each free worker, the job that it worked for last
  int64_t living = 0;             // free or busy
};

struct Admission {
  std::string job;
  std::vector<size_t> workers;  // places in `free` of its pool, ascending

  bool operator==(const Admission&) const = default;
};

// The jobs to admit now, in order, by the rules of scheduler/README.md, "Who gets workers".
std::vector<Admission> Admit(std::vector<QueueEntry> queue, const std::vector<WorkerPool>& pools);

// In the order Admit considers them.
void SortQueue(std::vector<QueueEntry>* queue);

}  // namespace coxswain::scheduler

#endif  // COXSWAIN_CONTROLLER_SCHEDULER_ADMISSION_H_
