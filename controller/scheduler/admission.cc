#include "controller/scheduler/admission.h"

#include <algorithm>
#include <map>

namespace coxswain::scheduler {
namespace {

// What one entry may take, as places in the pool's `free`.
struct Claim {
  const QueueEntry* entry;
  std::vector<size_t> workers;
  size_t missing() const { return static_cast<size_t>(entry->workers) - workers.size(); }
};

// Takes what `fits` from `loose` until the claim is complete.
template <typename Fits>
void Take(Claim* claim, std::vector<size_t>* loose, Fits fits) {
  std::erase_if(*loose, [&](size_t worker) {
    if (claim->missing() == 0 || !fits(worker)) return false;
    claim->workers.push_back(worker);
    return true;
  });
}

// Two gangs that each keep what the other lacks would wait for each other: the one in front
// completes itself from those behind that cannot form now, the last of them first.
void TakeFromBehind(std::vector<Claim>* claims) {
  for (size_t front = 0; front < claims->size(); ++front) {
    Claim& claim = (*claims)[front];
    size_t there = 0;
    for (size_t i = front + 1; i < claims->size(); ++i) {
      if ((*claims)[i].missing() > 0) there += (*claims)[i].workers.size();
    }
    if (claim.missing() == 0 || claim.missing() > there) continue;
    for (size_t i = claims->size() - 1; i > front; --i) {
      if ((*claims)[i].missing() == 0) continue;
      Take(&claim, &(*claims)[i].workers, [](size_t) { return true; });
    }
  }
}

// The workers that recovering gangs keep; what they leave stays in `loose`.
std::vector<Claim> Keep(const std::vector<const QueueEntry*>& queue, const WorkerPool& pool,
                        std::vector<size_t>* loose) {
  std::vector<Claim> claims;
  for (const QueueEntry* entry : queue) {
    if (entry->keeps) claims.push_back({entry, {}});
  }
  for (Claim& claim : claims) {
    Take(&claim, loose, [&](size_t worker) { return pool.free[worker] == claim.entry->job; });
  }
  for (Claim& claim : claims) Take(&claim, loose, [](size_t) { return true; });
  TakeFromBehind(&claims);
  return claims;
}

void AdmitOfKind(const std::vector<const QueueEntry*>& queue, const WorkerPool& pool,
                 std::map<const QueueEntry*, std::vector<size_t>>* admitted) {
  std::vector<size_t> loose(pool.free.size());
  for (size_t worker = 0; worker < loose.size(); ++worker) loose[worker] = worker;
  for (const Claim& claim : Keep(queue, pool, &loose)) {
    if (claim.missing() == 0 && claim.entry->ready) (*admitted)[claim.entry] = claim.workers;
  }
  for (const QueueEntry* entry : queue) {
    if (entry->keeps || entry->workers > pool.living) continue;
    if (entry->workers > static_cast<int64_t>(loose.size())) return;  // those behind it wait too
    Claim claim{entry, {}};
    Take(&claim, &loose, [](size_t) { return true; });
    (*admitted)[entry] = claim.workers;
  }
}

}  // namespace

void SortQueue(std::vector<QueueEntry>* queue) {
  std::sort(queue->begin(), queue->end(), [](const QueueEntry& a, const QueueEntry& b) {
    if (a.keeps != b.keeps) return a.keeps;
    return a.priority != b.priority ? a.priority > b.priority : a.order < b.order;
  });
}

std::vector<Admission> Admit(std::vector<QueueEntry> queue, const std::vector<WorkerPool>& pools) {
  SortQueue(&queue);
  std::map<const QueueEntry*, std::vector<size_t>> admitted;
  for (const WorkerPool& pool : pools) {
    std::vector<const QueueEntry*> of_kind;
    for (const QueueEntry& entry : queue) {
      if (entry.device == pool.device) of_kind.push_back(&entry);
    }
    AdmitOfKind(of_kind, pool, &admitted);
  }
  std::vector<Admission> out;
  for (const QueueEntry& entry : queue) {
    const auto found = admitted.find(&entry);
    if (found == admitted.end()) continue;
    std::sort(found->second.begin(), found->second.end());
    out.push_back({entry.job, std::move(found->second)});
  }
  return out;
}

}  // namespace coxswain::scheduler
