// The controller's rows of /metrics. Names and meanings: the table in common/README.md.
#ifndef COXSWAIN_CONTROLLER_RUNTIME_METRICS_H_
#define COXSWAIN_CONTROLLER_RUNTIME_METRICS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "coxswain/v1/common.pb.h"
#include "coxswain/v1/job.pb.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"

namespace coxswain {

struct StepMetrics {
  double loss = 0;
  double grad_norm = 0;
  double learning_rate = 0;
  int64_t tokens = 0;
  double tokens_per_second = 0;
  double mfu = 0;  // 0: not known
  double seconds = 0;
  int64_t finished_steps = 0;
  int64_t total_steps = 0;
  double eta_seconds = 0;
  bool applied = true;
  std::optional<v1::ExpertUse> experts = {};      // of a model with experts
  std::optional<v1::Preference> preference = {};  // of a preference method
};

struct PaceMetrics {
  double control_idle_ratio = 0;  // median over ranks
  int slowest_rank = -1;          // -1: the gang has one rank
  double slowest_ratio = 1;       // its compute over that of its peers
};

struct EvalMetrics {
  double loss = 0;
  double perplexity = 1;
  std::optional<double> token_accuracy = {};
  std::optional<v1::Preference> preference = {};  // of a preference method
};

// The metrics are thread-safe. The series of a job exist from its first value until DropJob.
class Metrics {
 public:
  explicit Metrics(std::shared_ptr<prometheus::Registry> registry);

  void JobSubmitted();
  void JobEnded(const std::string& job, v1::JobState result);
  void JobStateIs(const std::string& job, v1::JobState state);
  void Step(const std::string& job, const StepMetrics& step);
  void StepsEnded(const std::string& job);  // rates and commands in flight are 0 from here on
  void Progress(const std::string& job, int64_t finished_steps, int64_t total_steps);
  void Eval(const std::string& job, const EvalMetrics& eval);
  void Epoch(const std::string& job, uint64_t epoch);
  void Restart(const std::string& job, const std::string& reason);
  void GangReadopted(const std::string& job);
  void GangNotReadopted(const std::string& job);
  void RecoveryStage(const std::string& job, const std::string& stage);
  void Preempted(const std::string& job);  // it gave its workers to a job of higher priority
  void CheckpointFailed(const std::string& job);
  void Checkpoint(const std::string& job, double seconds, int64_t bytes, int64_t unix_ms);
  // Where the newest checkpoint stands (0: none) and how many steps later the next one is due (0:
  // only at the end).
  void CheckpointStep(const std::string& job, int64_t step, int64_t interval_steps);
  void OutputFree(const std::string& job, int64_t bytes);
  void Packing(const std::string& job, double efficiency);
  void Goodput(const std::string& job, double ratio);
  void Dispatch(double seconds_to_send);
  void Credits(const std::string& job, int in_flight);
  void Pace(const std::string& job, const PaceMetrics& pace);
  void FencedMessage();
  void DropJob(const std::string& job);

  void Jobs(const std::map<std::string, int64_t>& by_state);
  void Workers(const std::map<std::string, int64_t>& by_state);
  void CordonedWorkers(int64_t living);
  void HeartbeatAge(const std::map<std::string, double>& seconds_by_worker);
  void Rpc(const std::string& method, const std::string& code, double seconds);
  void StoreCommit(double seconds);
  void JournalDropped(int64_t events, int64_t steps);
  void UnreadableJobs(int64_t rows);
  void StoreDamage(int64_t sentences);  // of store::FindDamage
  void StateFree(int64_t bytes);
  void LoopStall(double seconds);

 private:
  template <typename T>
  struct PerJob {
    prometheus::Family<T>* family = nullptr;
    std::map<std::string, std::vector<T*>> rows;  // by job
  };
  using Labels = std::map<std::string, std::string>;
  prometheus::Gauge& JobGauge(PerJob<prometheus::Gauge>& metric, const std::string& job,
                              const Labels& more = {}) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  prometheus::Counter& JobCounter(PerJob<prometheus::Counter>& metric, const std::string& job,
                                  const Labels& more = {}) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // `of`: "train" or "eval".
  void Preference(const std::string& job, const v1::Preference& means, const std::string& of)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Experts(const std::string& job, const v1::ExpertUse& use) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  prometheus::Histogram& JobHistogram(PerJob<prometheus::Histogram>& metric, const std::string& job,
                                      const prometheus::Histogram::BucketBoundaries& buckets)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Mutex mu_;
  const std::shared_ptr<prometheus::Registry> registry_;
  ABSL_GUARDED_BY(mu_)
  PerJob<prometheus::Gauge> state_, loss_, eval_loss_, eval_perplexity_, eval_accuracy_, grad_norm_,
      learning_rate_, step_, expected_, progress_, tokens_per_second_, mfu_, eta_, epoch_,
      last_step_, last_checkpoint_, checkpoint_bytes_, packing_, goodput_, credits_,
      checkpoint_step_, checkpoint_interval_, output_free_, slowest_rank_, slowest_ratio_,
      control_idle_, reward_, reward_accuracy_, label_accuracy_, document_logp_, expert_load_,
      worst_expert_load_, unused_experts_, router_entropy_, nonfinite_router_tokens_,
      router_balance_loss_, router_z_loss_;
  ABSL_GUARDED_BY(mu_)
  PerJob<prometheus::Counter> tokens_, nonfinite_, restarts_, readopted_, not_readopted_,
      recovery_stages_, checkpoint_failures_, preemptions_;
  ABSL_GUARDED_BY(mu_)
  PerJob<prometheus::Histogram> step_seconds_, checkpoint_seconds_;
  prometheus::Family<prometheus::Gauge>* jobs_;
  prometheus::Family<prometheus::Gauge>* workers_;
  prometheus::Family<prometheus::Gauge>* heartbeat_age_;
  std::map<std::string, prometheus::Gauge*> heartbeat_rows_ ABSL_GUARDED_BY(mu_);
  prometheus::Family<prometheus::Counter>* completed_;
  prometheus::Family<prometheus::Histogram>* rpc_;
  prometheus::Counter* submitted_;
  prometheus::Counter* fenced_;
  prometheus::Gauge* state_free_;
  prometheus::Gauge* unreadable_jobs_;
  prometheus::Gauge* store_damage_;
  prometheus::Gauge* cordoned_workers_;
  prometheus::Counter* dropped_events_;
  prometheus::Counter* dropped_steps_;
  prometheus::Histogram* dispatch_;
  prometheus::Histogram* commit_;
  prometheus::Histogram* loop_stall_;
};

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_RUNTIME_METRICS_H_
