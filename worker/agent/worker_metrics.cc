#include "worker/agent/worker_metrics.h"

#include <array>
#include <utility>

#include "common/net/metrics.h"
#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"

namespace coxswain::agent {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;

constexpr std::array kPhases = {"forward", "backward", "comm", "optimizer"};
constexpr std::array kClasses = {"weights",   "gradients", "optimizer", "activations",
                                 "workspace", "host",      "peak"};

Family<Counter>& Counters(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}
Family<Gauge>& Gauges(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}

}  // namespace

struct WorkerMetrics::Families {
  explicit Families(prometheus::Registry& r)
      : tokens(Counters(r, "coxswain_worker_train_tokens_total", "Tokens of this rank, trained")),
        nonfinite(Counters(r, "coxswain_worker_nonfinite_steps_total",
                           "Steps with a non-finite gradient, not applied")),
        phases(Counters(r, "coxswain_worker_step_phase_seconds_total",
                        "Seconds spent in each phase of the training steps")),
        idle(Counters(r, "coxswain_worker_idle_seconds_total",
                      "Seconds the engine waited for its next command")),
        rate(Gauges(r, "coxswain_worker_tokens_per_second", "This rank, last training step")),
        loss(Gauges(r, "coxswain_worker_train_loss", "Loss of the last step's global batch")),
        norm(Gauges(r, "coxswain_worker_grad_norm", "Global norm of the last step, unclipped")),
        step(Gauges(r, "coxswain_worker_step", "0-based index of the last finished step")),
        memory(Gauges(r, "coxswain_worker_memory_bytes", "Memory of this rank by class")),
        duration(prometheus::BuildHistogram()
                     .Name("coxswain_worker_step_duration_seconds")
                     .Help("Time of one training step")
                     .Register(r)),
        states(Gauges(r, "coxswain_worker_state", "1 on the current state")),
        fenced(Counters(r, "coxswain_worker_fenced_messages_total",
                        "Requests refused because their fence was stale")) {}
  Family<Counter>&tokens, &nonfinite, &phases, &idle;
  Family<Gauge>&rate, &loss, &norm, &step, &memory;
  Family<Histogram>& duration;
  Family<Gauge>& states;
  Family<Counter>& fenced;
};

// One label set in each family of a job; removed from the families at destruction.
struct WorkerMetrics::Series {
  Series(Families& f, const prometheus::Labels& labels)
      : families(f),
        tokens(f.tokens.Add(labels)),
        nonfinite(f.nonfinite.Add(labels)),
        idle(f.idle.Add(labels)),
        rate(f.rate.Add(labels)),
        loss(f.loss.Add(labels)),
        norm(f.norm.Add(labels)),
        step(f.step.Add(labels)),
        duration(f.duration.Add(
            labels, Histogram::BucketBoundaries{0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10,
                                                20, 50, 100, 200, 500})) {
    for (const char* name : kPhases) phases.push_back(&f.phases.Add(With(labels, "phase", name)));
    for (const char* name : kClasses) memory.push_back(&f.memory.Add(With(labels, "class", name)));
  }
  ~Series() {
    families.tokens.Remove(&tokens);
    families.nonfinite.Remove(&nonfinite);
    families.idle.Remove(&idle);
    families.rate.Remove(&rate);
    families.loss.Remove(&loss);
    families.norm.Remove(&norm);
    families.step.Remove(&step);
    families.duration.Remove(&duration);
    for (Counter* phase : phases) families.phases.Remove(phase);
    for (Gauge* bytes : memory) families.memory.Remove(bytes);
  }
  static prometheus::Labels With(prometheus::Labels labels, const char* name, const char* value) {
    labels.emplace(name, value);
    return labels;
  }

  Families& families;
  Counter &tokens, &nonfinite, &idle;
  Gauge &rate, &loss, &norm, &step;
  Histogram& duration;
  std::vector<Counter*> phases;
  std::vector<Gauge*> memory;
};

WorkerMetrics::WorkerMetrics()
    : registry_(std::make_shared<prometheus::Registry>()),
      families_(std::make_unique<Families>(*registry_)) {
  AddProcessMetrics("worker", registry_.get());
  families_->fenced.Add({});
  SetState(AgentState::kIdle);
}

WorkerMetrics::~WorkerMetrics() = default;

void WorkerMetrics::SetState(AgentState state) {
  MutexLock lock(mu_);
  for (int i = 0; i < kNumAgentStates; ++i) {
    const auto each = static_cast<AgentState>(i);
    families_->states.Add({{"state", StateName(each)}}).Set(state == each);
  }
}

void WorkerMetrics::CountFenced(uint64_t refused_so_far) {
  MutexLock lock(mu_);
  families_->fenced.Add({}).Increment(static_cast<double>(refused_so_far - refused_));
  refused_ = refused_so_far;
}

void WorkerMetrics::BeginEpoch(const std::string& job, int rank) {
  MutexLock lock(mu_);
  series_.reset();
  series_ = std::make_unique<Series>(
      *families_, prometheus::Labels{{"job", job}, {"rank", std::to_string(rank)}});
}

void WorkerMetrics::SetMemory(const engine::MemoryBytes& m) {
  MutexLock lock(mu_);
  const std::array bytes = {m.weights,   m.gradients, m.optimizer, m.activations,
                            m.workspace, m.host,      m.peak};
  for (size_t i = 0; i < bytes.size(); ++i) {
    series_->memory[i]->Set(static_cast<double>(bytes[i]));
  }
}

void WorkerMetrics::CountIdle(double seconds) {
  MutexLock lock(mu_);
  series_->idle.Increment(seconds);
}

void WorkerMetrics::AddPhases(const engine::PhaseSeconds& seconds) {
  const std::array phases = {seconds.forward, seconds.backward, seconds.comm, seconds.optimizer};
  for (size_t i = 0; i < phases.size(); ++i) series_->phases[i]->Increment(phases[i]);
}

void WorkerMetrics::SetUpdate(int64_t step, const engine::StepStats& stats) {
  Series& s = *series_;
  if (stats.nonfinite > 0) s.nonfinite.Increment();
  s.loss.Set(stats.global_loss_sum / static_cast<double>(stats.loss_denominator));
  s.norm.Set(stats.grad_norm);
  s.step.Set(static_cast<double>(step));
  AddPhases(stats.seconds);
}

void WorkerMetrics::CountStep(int64_t step, const engine::StepStats& stats) {
  MutexLock lock(mu_);
  Series& s = *series_;
  s.tokens.Increment(static_cast<double>(stats.tokens));
  if (stats.seconds.step > 0) s.rate.Set(static_cast<double>(stats.tokens) / stats.seconds.step);
  s.duration.Observe(stats.seconds.step);
  SetUpdate(step, stats);
}

void WorkerMetrics::CountBatch(const engine::BatchStats& stats) {
  MutexLock lock(mu_);
  series_->tokens.Increment(static_cast<double>(stats.tokens));
  AddPhases(stats.seconds);
}

void WorkerMetrics::CountUpdate(int64_t step, const engine::StepStats& stats) {
  MutexLock lock(mu_);
  SetUpdate(step, stats);
}

}  // namespace coxswain::agent
