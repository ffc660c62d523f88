// Decides which workers each admitted job gets, by the present state of the registry.
#ifndef COXSWAIN_CONTROLLER_SCHEDULER_PLACEMENT_H_
#define COXSWAIN_CONTROLLER_SCHEDULER_PLACEMENT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "controller/scheduler/admission.h"
#include "controller/scheduler/registry.h"

namespace coxswain::scheduler {

struct Placement {
  std::string job;
  std::vector<Worker> workers;  // in order of rank
};

// The admissions of `queue` over the free workers of every device kind; nothing is reserved yet.
std::vector<Placement> PlaceJobs(const Registry& registry, const std::vector<QueueEntry>& queue);

// Takes the workers for the job. FailedPrecondition: one of them is not free; then none is taken.
absl::Status Reserve(Registry* registry, const Placement& placement);

}  // namespace coxswain::scheduler

#endif  // COXSWAIN_CONTROLLER_SCHEDULER_PLACEMENT_H_
