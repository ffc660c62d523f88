// JobTable: jobs that give their workers to one of higher priority.
#include <algorithm>
#include <utility>

#include "controller/driver/job/job_table.h"
#include "controller/scheduler/preemption.h"

namespace coxswain::driver {
namespace {

bool MayHaveAJob(const scheduler::Worker& worker, const std::string& device) {
  return worker.status.phase != state::WorkerPhase::kLost && !worker.status.draining &&
         worker.cordoned.empty() && worker.hello.build().device() == device;
}

int64_t UnsavedSteps(const v1::Job& job) {
  int64_t saved = 0;
  for (const v1::CheckpointInfo& info : job.checkpoints()) saved = std::max(saved, info.step());
  return std::max<int64_t>(0, job.progress().step() - saved);
}

}  // namespace

// Of the workers of a kind, how many each gang has that goes on.
std::map<std::string, int64_t> JobTable::Held(const std::string& device) const {
  std::map<std::string, int64_t> held;
  for (const scheduler::Worker& worker : deps_.registry->All()) {
    const auto job = jobs_.find(worker.job);
    if (!MayHaveAJob(worker, device) || job == jobs_.end()) continue;
    const bool in_gang = job->second->gang() != nullptr && !job->second->GivesUpWorkers();
    if (in_gang) ++held[worker.job];
  }
  return held;
}

void JobTable::Preempt() {
  const std::vector<scheduler::QueueEntry> queue = Queue();
  if (queue.empty()) return;
  std::vector<scheduler::RunningJob> running;
  std::vector<scheduler::WorkerCount> counts;
  for (const char* device : {"cpu", "cuda"}) {
    scheduler::WorkerCount count{.device = device, .living = deps_.registry->Living(device)};
    count.coming = count.living;
    for (const auto& [id, workers] : Held(device)) {
      count.coming -= workers;
      const JobDriver& job = *jobs_.at(id);
      if (!job.MayBePreempted()) continue;
      running.push_back({.job = id,
                         .priority = job.spec().priority,
                         .order = job.row().order,
                         .device = device,
                         .workers = workers,
                         .unsaved_steps = UnsavedSteps(job.job())});
    }
    for (const scheduler::QueueEntry& entry : queue) {
      if (entry.keeps && entry.device == device) count.coming -= entry.workers;
    }
    counts.push_back(count);
  }
  for (const scheduler::Preemption& preemption : scheduler::ChooseVictims(queue, running, counts)) {
    jobs_.at(preemption.job)->Preempt(preemption.by, preemption.by_priority);
  }
}

}  // namespace coxswain::driver
