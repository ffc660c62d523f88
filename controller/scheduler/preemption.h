// Decides which running jobs give their workers to a waiting job of higher priority. Pure.
#ifndef COXSWAIN_CONTROLLER_SCHEDULER_PREEMPTION_H_
#define COXSWAIN_CONTROLLER_SCHEDULER_PREEMPTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "controller/scheduler/admission.h"

namespace coxswain::scheduler {

// A job whose gang trains. It does not load or recover, and nobody has asked it to stop.
struct RunningJob {
  std::string job;
  int64_t priority = 0;
  int64_t order = 0;          // of submission
  std::string device;         // "cpu" | "cuda"
  int64_t workers = 0;        // that others may have when it stops
  int64_t unsaved_steps = 0;  // since its newest checkpoint
};

struct WorkerCount {
  std::string device;
  int64_t living = 0;  // that may have a job
  // Number of workers that are free or come free without a preemption, minus those that recovering
  // gangs still need. Negative: those gangs lack some.
  int64_t coming = 0;
};

struct Preemption {
  std::string job;
  std::string by;
  int64_t by_priority = 0;

  bool operator==(const Preemption&) const = default;
};

// The jobs to stop now, by the rules of scheduler/README.md, "Who gives workers up". `queue` holds
// the jobs that were not admitted.
std::vector<Preemption> ChooseVictims(std::vector<QueueEntry> queue,
                                      const std::vector<RunningJob>& running,
                                      const std::vector<WorkerCount>& counts);

}  // namespace coxswain::scheduler

#endif  // COXSWAIN_CONTROLLER_SCHEDULER_PREEMPTION_H_
