// This worker's rows of the metrics table (common/README.md).
#ifndef COXSWAIN_WORKER_AGENT_WORKER_METRICS_H_
#define COXSWAIN_WORKER_AGENT_WORKER_METRICS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "prometheus/registry.h"
#include "worker/agent/agent_state.h"
#include "worker/engine/engine.h"

namespace coxswain::agent {

// The metrics are thread-safe. The series of a job stay until the worker joins another epoch.
class WorkerMetrics {
 public:
  WorkerMetrics();
  ~WorkerMetrics();

  const std::shared_ptr<prometheus::Registry>& registry() const { return registry_; }

  void SetState(AgentState state);
  void CountFenced(uint64_t refused_so_far);
  // Drops the series of the epoch before and begins those of (job, rank).
  void BeginEpoch(const std::string& job, int rank);
  void SetMemory(const engine::MemoryBytes& memory);
  // `step`: 0-based. A step is a batch and an update at once, and has a duration and a rate.
  void CountStep(int64_t step, const engine::StepStats& stats);
  void CountBatch(const engine::BatchStats& stats);
  void CountUpdate(int64_t step, const engine::StepStats& stats);
  void CountIdle(double seconds);  // the engine waited for a command

 private:
  struct Families;
  struct Series;
  void AddPhases(const engine::PhaseSeconds& seconds) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SetUpdate(int64_t step, const engine::StepStats& stats) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::shared_ptr<prometheus::Registry> registry_;
  const std::unique_ptr<Families> families_;
  Mutex mu_;
  std::unique_ptr<Series> series_ ABSL_GUARDED_BY(mu_);  // null before the first epoch
  uint64_t refused_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace coxswain::agent

#endif  // COXSWAIN_WORKER_AGENT_WORKER_METRICS_H_
