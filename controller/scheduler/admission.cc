#include "controller/scheduler/admission.h"

#include <algorithm>
#include <set>

namespace coxswain::scheduler {

void SortQueue(std::vector<QueueEntry>* queue) {
  std::sort(queue->begin(), queue->end(), [](const QueueEntry& a, const QueueEntry& b) {
    return a.priority != b.priority ? a.priority > b.priority : a.order < b.order;
  });
}

std::vector<std::string> Admit(std::vector<QueueEntry> queue, std::vector<WorkerPool> pools) {
  SortQueue(&queue);
  std::vector<std::string> admitted;
  std::set<std::string> held;  // device kinds a job in front waits for
  for (const QueueEntry& entry : queue) {
    const auto pool = std::find_if(pools.begin(), pools.end(), [&](const WorkerPool& candidate) {
      return candidate.device == entry.device;
    });
    if (pool == pools.end() || entry.workers > pool->living || held.contains(entry.device)) {
      continue;
    }
    if (entry.workers > pool->free) {
      held.insert(entry.device);
      continue;
    }
    pool->free -= entry.workers;
    admitted.push_back(entry.job);
  }
  return admitted;
}

}  // namespace coxswain::scheduler
