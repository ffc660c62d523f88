#include "controller/scheduler/preemption.h"

#include <algorithm>
#include <functional>
#include <tuple>

namespace coxswain::scheduler {
namespace {

// The one whose turn it is; those behind it wait for theirs. Null: nobody can have workers.
const QueueEntry* FirstOf(const std::vector<QueueEntry>& sorted, const WorkerCount& count) {
  for (const QueueEntry& entry : sorted) {
    if (entry.device != count.device || entry.keeps) continue;
    if (entry.workers <= count.living) return entry.ready ? &entry : nullptr;
  }
  return nullptr;
}

// Those that may stop for `entry`, in the order in which they would.
std::vector<const RunningJob*> Candidates(const std::vector<RunningJob>& running,
                                          const QueueEntry& entry) {
  std::vector<const RunningJob*> jobs;
  for (const RunningJob& job : running) {
    const bool lower = job.priority < entry.priority && job.device == entry.device;
    if (lower && job.workers > 0) jobs.push_back(&job);
  }
  std::sort(jobs.begin(), jobs.end(), [](const RunningJob* a, const RunningJob* b) {
    return std::make_tuple(a->priority, a->unsaved_steps, -a->order) <
           std::make_tuple(b->priority, b->unsaved_steps, -b->order);
  });
  return jobs;
}

// The most workers that `count` of the jobs from `begin` on have together.
int64_t MostOf(const std::vector<const RunningJob*>& jobs, size_t begin, size_t count) {
  std::vector<int64_t> workers;
  for (size_t i = begin; i < jobs.size(); ++i) workers.push_back(jobs[i]->workers);
  std::sort(workers.begin(), workers.end(), std::greater<>());
  int64_t most = 0;
  for (size_t i = 0; i < std::min(count, workers.size()); ++i) most += workers[i];
  return most;
}

// The fewest that have `need` workers together, of those the first ones; none when all have not.
std::vector<const RunningJob*> Fewest(const std::vector<const RunningJob*>& jobs, int64_t need) {
  size_t count = 1;
  while (count <= jobs.size() && MostOf(jobs, 0, count) < need) ++count;
  std::vector<const RunningJob*> chosen;
  if (count > jobs.size()) return chosen;
  for (size_t i = 0; i < jobs.size() && need > 0; ++i) {
    const size_t others = count - chosen.size() - 1;
    if (jobs[i]->workers + MostOf(jobs, i + 1, others) < need) continue;
    chosen.push_back(jobs[i]);
    need -= jobs[i]->workers;
  }
  return chosen;
}

}  // namespace

std::vector<Preemption> ChooseVictims(std::vector<QueueEntry> queue,
                                      const std::vector<RunningJob>& running,
                                      const std::vector<WorkerCount>& counts) {
  SortQueue(&queue);
  std::vector<Preemption> preemptions;
  for (const WorkerCount& count : counts) {
    const QueueEntry* first = FirstOf(queue, count);
    if (first == nullptr || first->workers <= count.coming) continue;
    for (const RunningJob* job :
         Fewest(Candidates(running, *first), first->workers - count.coming)) {
      preemptions.push_back({.job = job->job, .by = first->job, .by_priority = first->priority});
    }
  }
  return preemptions;
}

}  // namespace coxswain::scheduler
