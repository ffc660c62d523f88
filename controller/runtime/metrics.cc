#include "controller/runtime/metrics.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "controller/state/job_state.h"

namespace coxswain {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;
using prometheus::Histogram;

const Histogram::BucketBoundaries kRpcBuckets = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10};
const Histogram::BucketBoundaries kStepBuckets = {0.01, 0.03, 0.1, 0.3, 1,  2,
                                                  4,    8,    15,  30,  60, 300};
const Histogram::BucketBoundaries kFastBuckets = {1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3,
                                                  1e-2, 3e-2, 0.1,  0.3,  1};
const Histogram::BucketBoundaries kStallBuckets = {1, 2, 5, 10, 30, 60, 300};

double UnixSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string StateName(v1::JobState state) { return std::string(state::PhaseName(state)); }

}  // namespace

// A family after the other. NOLINTNEXTLINE(readability-function-size)
Metrics::Metrics(std::shared_ptr<prometheus::Registry> registry) : registry_(std::move(registry)) {
  prometheus::Registry& r = *registry_;
  const auto gauge = [&r](const char* name, const char* help) {
    return &BuildGauge().Name(name).Help(help).Register(r);
  };
  const auto counter = [&r](const char* name, const char* help) {
    return &BuildCounter().Name(name).Help(help).Register(r);
  };
  const auto histogram = [&r](const char* name, const char* help) {
    return &BuildHistogram().Name(name).Help(help).Register(r);
  };
  state_.family = gauge("coxswain_job_state", "1 on the job's state");
  loss_.family = gauge("coxswain_train_loss", "loss of the last step, before the update");
  eval_loss_.family = gauge("coxswain_eval_loss", "newest evaluation");
  eval_perplexity_.family = gauge("coxswain_eval_perplexity", "newest evaluation, e^loss");
  eval_accuracy_.family =
      gauge("coxswain_eval_token_accuracy_ratio", "newest evaluation, targets ranked first");
  grad_norm_.family = gauge("coxswain_grad_norm", "norm of the last step, before clipping");
  learning_rate_.family = gauge("coxswain_learning_rate", "base rate of the last step");
  step_.family = gauge("coxswain_step", "finished optimizer steps");
  expected_.family = gauge("coxswain_steps_expected", "steps of the whole job");
  progress_.family = gauge("coxswain_progress_ratio", "finished steps over expected steps");
  tokens_per_second_.family = gauge("coxswain_tokens_per_second", "all ranks, last 10 steps");
  mfu_.family = gauge("coxswain_mfu_ratio", "model FLOPs utilisation of all ranks, last 10 steps");
  eta_.family = gauge("coxswain_eta_seconds", "predicted time to the last step");
  epoch_.family = gauge("coxswain_job_epoch", "gang number");
  last_step_.family = gauge("coxswain_last_step_timestamp_seconds", "commit of the last step");
  last_checkpoint_.family =
      gauge("coxswain_last_checkpoint_timestamp_seconds", "commit of the newest checkpoint");
  checkpoint_bytes_.family = gauge("coxswain_checkpoint_bytes", "size of the newest checkpoint");
  checkpoint_step_.family =
      gauge("coxswain_last_checkpoint_step", "finished steps in the newest checkpoint");
  checkpoint_interval_.family =
      gauge("coxswain_checkpoint_interval_steps", "steps from one checkpoint to the next");
  output_free_.family =
      gauge("coxswain_output_free_bytes", "left on the file system of the job's output directory");
  packing_.family = gauge("coxswain_packing_efficiency_ratio", "filled slots of the first pass");
  goodput_.family = gauge("coxswain_goodput_ratio", "committed step time over time since start");
  credits_.family = gauge("coxswain_dispatch_credits", "commands in flight");
  slowest_rank_.family = gauge("coxswain_slowest_rank", "rank that computes longest");
  slowest_ratio_.family =
      gauge("coxswain_slowest_rank_ratio", "its compute time over the median of the others");
  control_idle_.family =
      gauge("coxswain_control_idle_ratio", "time that engines wait for commands over all time");
  reward_.family =
      gauge("coxswain_reward_nats",
            "mean reward of the chosen and of the rejected side, of a preference method");
  label_accuracy_.family =
      gauge("coxswain_label_accuracy_ratio", "labels of documents that the model predicts");
  reward_accuracy_.family =
      gauge("coxswain_reward_accuracy_ratio", "pairs whose chosen side has the higher reward");
  document_logp_.family =
      gauge("coxswain_document_logp_nats", "mean log-probability of a side, as its loss takes it");
  expert_load_.family = gauge("coxswain_expert_load_ratio",
                              "tokens of the fullest expert over the mean, mean of the layers");
  worst_expert_load_.family =
      gauge("coxswain_expert_load_worst_ratio", "the same of the layer with the highest");
  unused_experts_.family =
      gauge("coxswain_experts_unused", "experts without a token, of all layers");
  router_entropy_.family =
      gauge("coxswain_router_entropy_nats", "entropy of routers, mean of tokens and layers");
  nonfinite_router_tokens_.family =
      gauge("coxswain_router_nonfinite_tokens", "tokens of all layers whose router is not finite");
  router_balance_loss_.family =
      gauge("coxswain_router_balance_loss", "balancing loss of routers, without its factor");
  router_z_loss_.family = gauge("coxswain_router_z_loss", "z-loss of routers, without its factor");
  tokens_.family = counter("coxswain_train_tokens_total", "tokens of committed steps, replays too");
  nonfinite_.family = counter("coxswain_nonfinite_steps_total", "steps whose update was skipped");
  restarts_.family = counter("coxswain_restarts_total", "attempts that failed and were retried");
  readopted_.family = counter("coxswain_gangs_readopted_total",
                              "gangs that went on after a restart of the controller");
  not_readopted_.family = counter("coxswain_gangs_not_readopted_total",
                                  "gangs given up after a restart of the controller");
  recovery_stages_.family =
      counter("coxswain_recovery_stages_total", "stages entered after failures of its gangs");
  checkpoint_failures_.family =
      counter("coxswain_checkpoint_failures_total", "checkpoints that could not be written");
  preemptions_.family =
      counter("coxswain_preemptions_total", "times that it gave its workers to another job");
  step_seconds_.family = histogram("coxswain_step_duration_seconds", "commit to commit");
  checkpoint_seconds_.family =
      histogram("coxswain_checkpoint_duration_seconds", "snapshot command to commit");
  state_free_ =
      &gauge("coxswain_state_free_bytes", "left on the file system of --state-dir")->Add({});
  unreadable_jobs_ =
      &gauge("coxswain_store_unreadable_jobs", "rows of jobs that were set aside")->Add({});
  store_damage_ =
      &gauge("coxswain_store_damage", "damages found in the pages of the store's file")->Add({});
  prometheus::Family<prometheus::Counter>* dropped =
      counter("coxswain_journal_dropped_total", "dropped while the store took no writes");
  dropped_events_ = &dropped->Add({{"kind", "event"}});
  dropped_steps_ = &dropped->Add({{"kind", "step"}});
  jobs_ = gauge("coxswain_jobs", "jobs in the store");
  workers_ = gauge("coxswain_workers", "registered workers");
  cordoned_workers_ =
      &gauge("coxswain_workers_cordoned", "living workers that get no new job")->Add({});
  heartbeat_age_ = gauge("coxswain_heartbeat_age_seconds", "time since the last heartbeat");
  completed_ = counter("coxswain_job_completed_total", "jobs that ended");
  rpc_ = histogram("coxswain_rpc_duration_seconds", "unary calls served");
  submitted_ = &counter("coxswain_job_submitted_total", "jobs accepted")->Add({});
  fenced_ = &counter("coxswain_fenced_messages_total", "events dropped by their fence")->Add({});
  dispatch_ = &histogram("coxswain_dispatch_latency_seconds",
                         "result of a step to sending the next command to all ranks")
                   ->Add({}, kFastBuckets);
  commit_ =
      &histogram("coxswain_store_commit_seconds", "one durable commit")->Add({}, kFastBuckets);
  loop_stall_ = &histogram("coxswain_loop_stall_seconds", "the event loop came so late")
                     ->Add({}, kStallBuckets);
}

prometheus::Gauge& Metrics::JobGauge(PerJob<prometheus::Gauge>& metric, const std::string& job,
                                     const Labels& more) {
  Labels labels = more;
  labels["job"] = job;
  prometheus::Gauge& row = metric.family->Add(labels);
  auto& rows = metric.rows[job];
  if (std::find(rows.begin(), rows.end(), &row) == rows.end()) rows.push_back(&row);
  return row;
}

prometheus::Counter& Metrics::JobCounter(PerJob<prometheus::Counter>& metric,
                                         const std::string& job, const Labels& more) {
  Labels labels = more;
  labels["job"] = job;
  prometheus::Counter& row = metric.family->Add(labels);
  auto& rows = metric.rows[job];
  if (std::find(rows.begin(), rows.end(), &row) == rows.end()) rows.push_back(&row);
  return row;
}

prometheus::Histogram& Metrics::JobHistogram(PerJob<prometheus::Histogram>& metric,
                                             const std::string& job,
                                             const Histogram::BucketBoundaries& buckets) {
  prometheus::Histogram& row = metric.family->Add({{"job", job}}, buckets);
  auto& rows = metric.rows[job];
  if (rows.empty()) rows.push_back(&row);
  return row;
}

void Metrics::JobSubmitted() { submitted_->Increment(); }

void Metrics::JobEnded(const std::string& job, v1::JobState result) {
  completed_->Add({{"result", StateName(result)}}).Increment();
}

void Metrics::JobStateIs(const std::string& job, v1::JobState state) {
  MutexLock lock(mu_);
  for (prometheus::Gauge* row : state_.rows[job]) row->Set(0);
  JobGauge(state_, job, {{"state", StateName(state)}}).Set(1);
}

void Metrics::Step(const std::string& job, const StepMetrics& step) {
  MutexLock lock(mu_);
  JobGauge(loss_, job).Set(step.loss);
  JobGauge(grad_norm_, job).Set(step.grad_norm);
  JobGauge(learning_rate_, job).Set(step.learning_rate);
  JobGauge(tokens_per_second_, job).Set(step.tokens_per_second);
  // Where no peak is known there is none, nor an old one.
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const bool known = step.mfu > 0;
  if (known || mfu_.rows.contains(job)) JobGauge(mfu_, job).Set(known ? step.mfu : kNone);
  JobGauge(eta_, job).Set(step.eta_seconds);
  JobGauge(last_step_, job).Set(UnixSeconds());
  JobCounter(tokens_, job).Increment(static_cast<double>(step.tokens));
  prometheus::Counter& nonfinite = JobCounter(nonfinite_, job);
  if (!step.applied) nonfinite.Increment();
  JobHistogram(step_seconds_, job, kStepBuckets).Observe(step.seconds);
  if (step.experts) Experts(job, *step.experts);
  if (step.preference) Preference(job, *step.preference, "train");
}

void Metrics::Preference(const std::string& job, const v1::Preference& means,
                         const std::string& of) {
  if (means.of() == v1::Preference::LABELS) {
    return JobGauge(label_accuracy_, job, {{"of", of}}).Set(means.accuracies());
  }
  const Labels chosen = {{"side", "chosen"}, {"of", of}},
               rejected = {{"side", "rejected"}, {"of", of}};
  JobGauge(reward_, job, chosen).Set(means.rewards_chosen());
  JobGauge(reward_, job, rejected).Set(means.rewards_rejected());
  if (means.of() == v1::Preference::LOG_PROBS) {
    JobGauge(document_logp_, job, chosen).Set(means.logps_chosen());
    JobGauge(document_logp_, job, rejected).Set(means.logps_rejected());
  }
  if (means.pairs()) JobGauge(reward_accuracy_, job, {{"of", of}}).Set(means.accuracies());
}

void Metrics::Experts(const std::string& job, const v1::ExpertUse& use) {
  JobGauge(expert_load_, job).Set(use.load_ratio());
  JobGauge(worst_expert_load_, job).Set(use.worst_load_ratio());
  JobGauge(unused_experts_, job).Set(static_cast<double>(use.unused_experts()));
  JobGauge(router_entropy_, job).Set(use.router_entropy());
  JobGauge(nonfinite_router_tokens_, job).Set(static_cast<double>(use.nonfinite_tokens()));
  // A loss that is not there now must not show an old value.
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const auto loss = [&](PerJob<prometheus::Gauge>& metric, bool there, double value) {
    if (there || metric.rows.contains(job)) JobGauge(metric, job).Set(there ? value : kNone);
  };
  loss(router_balance_loss_, use.has_balance_loss(), use.balance_loss());
  loss(router_z_loss_, use.has_z_loss(), use.z_loss());
}

void Metrics::StepsEnded(const std::string& job) {
  MutexLock lock(mu_);
  for (auto* metric : {&eta_, &tokens_per_second_, &credits_}) JobGauge(*metric, job).Set(0);
  if (mfu_.rows.contains(job)) JobGauge(mfu_, job).Set(0);
}

void Metrics::Progress(const std::string& job, int64_t finished_steps, int64_t total_steps) {
  MutexLock lock(mu_);
  JobGauge(step_, job).Set(static_cast<double>(finished_steps));
  JobGauge(expected_, job).Set(static_cast<double>(total_steps));
  JobGauge(progress_, job)
      .Set(total_steps > 0 ? static_cast<double>(finished_steps) / static_cast<double>(total_steps)
                           : 0);
}

void Metrics::Eval(const std::string& job, const EvalMetrics& eval) {
  MutexLock lock(mu_);
  JobGauge(eval_loss_, job).Set(eval.loss);
  if (eval.preference) {
    Preference(job, *eval.preference, "eval");
  } else {
    JobGauge(eval_perplexity_, job).Set(eval.perplexity);
  }
  if (eval.token_accuracy) JobGauge(eval_accuracy_, job).Set(*eval.token_accuracy);
}

void Metrics::Epoch(const std::string& job, uint64_t epoch) {
  MutexLock lock(mu_);
  JobGauge(epoch_, job).Set(static_cast<double>(epoch));
}

void Metrics::Restart(const std::string& job, const std::string& reason) {
  MutexLock lock(mu_);
  JobCounter(restarts_, job, {{"reason", reason}}).Increment();
}

void Metrics::GangReadopted(const std::string& job) {
  MutexLock lock(mu_);
  JobCounter(readopted_, job).Increment();
}

void Metrics::GangNotReadopted(const std::string& job) {
  MutexLock lock(mu_);
  JobCounter(not_readopted_, job).Increment();
}

void Metrics::RecoveryStage(const std::string& job, const std::string& stage) {
  MutexLock lock(mu_);
  JobCounter(recovery_stages_, job, {{"stage", stage}}).Increment();
}

void Metrics::Preempted(const std::string& job) {
  MutexLock lock(mu_);
  JobCounter(preemptions_, job).Increment();
}

void Metrics::CheckpointFailed(const std::string& job) {
  MutexLock lock(mu_);
  JobCounter(checkpoint_failures_, job).Increment();
}

void Metrics::Checkpoint(const std::string& job, double seconds, int64_t bytes, int64_t unix_ms) {
  MutexLock lock(mu_);
  JobHistogram(checkpoint_seconds_, job, kStepBuckets).Observe(seconds);
  JobGauge(checkpoint_bytes_, job).Set(static_cast<double>(bytes));
  JobGauge(last_checkpoint_, job).Set(static_cast<double>(unix_ms) / 1000.0);
}

void Metrics::CheckpointStep(const std::string& job, int64_t step, int64_t interval_steps) {
  MutexLock lock(mu_);
  JobGauge(checkpoint_step_, job).Set(static_cast<double>(step));
  JobGauge(checkpoint_interval_, job).Set(static_cast<double>(interval_steps));
}

void Metrics::OutputFree(const std::string& job, int64_t bytes) {
  MutexLock lock(mu_);
  JobGauge(output_free_, job).Set(static_cast<double>(bytes));
}

void Metrics::Packing(const std::string& job, double efficiency) {
  MutexLock lock(mu_);
  JobGauge(packing_, job).Set(efficiency);
}

void Metrics::Goodput(const std::string& job, double ratio) {
  MutexLock lock(mu_);
  JobGauge(goodput_, job).Set(ratio);
}

void Metrics::Dispatch(double seconds_to_send) { dispatch_->Observe(seconds_to_send); }

void Metrics::Credits(const std::string& job, int in_flight) {
  MutexLock lock(mu_);
  JobGauge(credits_, job).Set(in_flight);
}

void Metrics::Pace(const std::string& job, const PaceMetrics& pace) {
  MutexLock lock(mu_);
  JobGauge(control_idle_, job).Set(pace.control_idle_ratio);
  JobGauge(slowest_rank_, job).Set(pace.slowest_rank);
  JobGauge(slowest_ratio_, job).Set(pace.slowest_ratio);
}

void Metrics::FencedMessage() { fenced_->Increment(); }

void Metrics::DropJob(const std::string& job) {
  MutexLock lock(mu_);
  const auto drop = [&job](auto& metric) {
    for (auto* row : metric.rows[job]) metric.family->Remove(row);
    metric.rows.erase(job);
  };
  for (auto* metric : {&state_,
                       &loss_,
                       &eval_loss_,
                       &grad_norm_,
                       &learning_rate_,
                       &step_,
                       &expected_,
                       &progress_,
                       &tokens_per_second_,
                       &mfu_,
                       &eta_,
                       &epoch_,
                       &last_step_,
                       &last_checkpoint_,
                       &checkpoint_bytes_,
                       &packing_,
                       &goodput_,
                       &credits_,
                       &checkpoint_step_,
                       &checkpoint_interval_,
                       &output_free_,
                       &slowest_rank_,
                       &slowest_ratio_,
                       &control_idle_,
                       &eval_perplexity_,
                       &eval_accuracy_,
                       &reward_,
                       &reward_accuracy_,
                       &label_accuracy_,
                       &document_logp_,
                       &expert_load_,
                       &worst_expert_load_,
                       &unused_experts_,
                       &router_entropy_,
                       &nonfinite_router_tokens_,
                       &router_balance_loss_,
                       &router_z_loss_}) {
    drop(*metric);
  }
  for (auto* metric : {&tokens_, &nonfinite_, &restarts_, &readopted_, &not_readopted_,
                       &recovery_stages_, &checkpoint_failures_, &preemptions_}) {
    drop(*metric);
  }
  for (auto* metric : {&step_seconds_, &checkpoint_seconds_}) drop(*metric);
}

void Metrics::Jobs(const std::map<std::string, int64_t>& by_state) {
  for (const auto& [state, count] : by_state) {
    jobs_->Add({{"state", state}}).Set(static_cast<double>(count));
  }
}

void Metrics::Workers(const std::map<std::string, int64_t>& by_state) {
  for (const auto& [state, count] : by_state) {
    workers_->Add({{"state", state}}).Set(static_cast<double>(count));
  }
}

void Metrics::CordonedWorkers(int64_t living) {
  cordoned_workers_->Set(static_cast<double>(living));
}

void Metrics::HeartbeatAge(const std::map<std::string, double>& seconds_by_worker) {
  MutexLock lock(mu_);
  for (const auto& [worker, seconds] : seconds_by_worker) {
    prometheus::Gauge*& row = heartbeat_rows_[worker];
    if (row == nullptr) row = &heartbeat_age_->Add({{"worker", worker}});
    row->Set(seconds);
  }
  std::erase_if(heartbeat_rows_, [&](const auto& entry) {
    if (seconds_by_worker.contains(entry.first)) return false;
    heartbeat_age_->Remove(entry.second);
    return true;
  });
}

void Metrics::Rpc(const std::string& method, const std::string& code, double seconds) {
  rpc_->Add({{"method", method}, {"code", code}}, kRpcBuckets).Observe(seconds);
}

void Metrics::StoreCommit(double seconds) { commit_->Observe(seconds); }

void Metrics::LoopStall(double seconds) { loop_stall_->Observe(seconds); }

void Metrics::JournalDropped(int64_t events, int64_t steps) {
  dropped_events_->Increment(static_cast<double>(events));
  dropped_steps_->Increment(static_cast<double>(steps));
}

void Metrics::StoreDamage(int64_t sentences) { store_damage_->Set(static_cast<double>(sentences)); }
void Metrics::UnreadableJobs(int64_t rows) { unreadable_jobs_->Set(static_cast<double>(rows)); }

void Metrics::StateFree(int64_t bytes) { state_free_->Set(static_cast<double>(bytes)); }

}  // namespace coxswain
