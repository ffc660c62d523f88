// Agent: what the engine does for a command, and what the answer says.
#include "common/faults/fault_point.h"
#include "common/status_macros.h"
#include "worker/agent/agent.h"
#include "worker/agent/commands.h"
#include "worker/agent/wire/wire.h"

namespace coxswain::agent {
namespace {

void Tell(const engine::BinBatch& bins, const engine::PhaseSeconds& seconds, v1::Done* done) {
  done->mutable_bin_ids()->Add(bins.bin_ids.begin(), bins.bin_ids.end());
  *done->mutable_seconds() = ToWire(seconds);
}

v1::Done DoneOf(const engine::BatchStats& stats, const engine::BinBatch& bins) {
  v1::Done done;
  done.set_loss_sum(stats.loss_sum);
  done.set_targets(stats.targets);
  done.set_tokens(stats.tokens);
  Tell(bins, stats.seconds, &done);
  if (stats.preference.any()) *done.mutable_preference() = ToWire(stats.preference);
  if (stats.policy.any()) *done.mutable_policy() = ToWire(stats.policy);
  return done;
}

// Of a step or an update.
v1::Done DoneOf(const engine::StepStats& stats, const engine::MemoryBytes& memory) {
  v1::Done done;
  done.set_loss_sum(stats.loss_sum);
  done.set_global_loss_sum(stats.global_loss_sum);
  done.set_targets(stats.targets);
  done.set_tokens(stats.tokens);
  done.set_grad_norm(stats.grad_norm);
  done.set_nonfinite(stats.nonfinite);
  done.set_applied(stats.applied);
  *done.mutable_seconds() = ToWire(stats.seconds);
  *done.mutable_memory() = ToWire(memory);
  if (stats.preference.any()) *done.mutable_preference() = ToWire(stats.preference);
  if (stats.policy.any()) *done.mutable_policy() = ToWire(stats.policy);
  if (!stats.experts.layers.empty()) *done.mutable_experts() = ToWire(stats.experts);
  return done;
}

v1::Done DoneOf(const engine::GenerateStats& stats) {
  v1::Done done;
  for (const engine::GeneratedText& text : stats.texts) *done.add_texts() = ToWire(text);
  *done.mutable_seconds() = ToWire(stats.seconds);
  return done;
}

// Whether files are as they should be is an answer, not a failure of the rank.
absl::StatusOr<v1::Done> Load(engine::Engine& engine, const engine::WrittenWeights& written) {
  v1::Done done;
  const absl::Status loaded = engine.Load(written);
  const bool refused = absl::IsInvalidArgument(loaded) || absl::IsNotFound(loaded) ||
                       absl::IsDataLoss(loaded) || absl::IsFailedPrecondition(loaded);
  if (!loaded.ok() && !refused) return loaded;
  done.set_refused(std::string(loaded.message()));
  return done;
}

}  // namespace

absl::StatusOr<v1::Done> Agent::RunOn(engine::Engine& engine, const Work& work) {
  if (const auto* step = std::get_if<engine::TrainStep>(&work.what)) return Train(engine, *step);
  if (const auto* update = std::get_if<engine::UpdateStep>(&work.what)) {
    return Update(engine, *update);
  }
  v1::Done done;
  if (const auto* batch = std::get_if<engine::GradientBatch>(&work.what)) {
    ASSIGN_OR_RETURN(done, ForwardBackward(engine, *batch));
  } else if (const auto* eval = std::get_if<Work::Eval>(&work.what)) {
    ASSIGN_OR_RETURN(const engine::EvalStats stats, engine.Evaluate(eval->bins, eval->documents));
    done = DoneOf(stats, eval->bins);
    done.set_correct_targets(stats.correct_targets);
  } else if (const auto* asked = std::get_if<Work::LogProbs>(&work.what)) {
    ASSIGN_OR_RETURN(const engine::LogProbStats stats,
                     engine.LogProbs(asked->bins, asked->without_adapters));
    done.mutable_log_probs()->Add(stats.sums.begin(), stats.sums.end());
    done.mutable_token_log_probs()->Add(stats.of_targets.begin(), stats.of_targets.end());
    Tell(asked->bins, stats.seconds, &done);
  } else if (const auto* chunk = std::get_if<engine::GenerateChunk>(&work.what)) {
    ASSIGN_OR_RETURN(const engine::GenerateStats stats, engine.Generate(*chunk));
    done = DoneOf(stats);
  } else if (const auto* written = std::get_if<engine::WrittenWeights>(&work.what)) {
    ASSIGN_OR_RETURN(done, Load(engine, *written));
  } else if (const auto* snapshot = std::get_if<Work::Snapshot>(&work.what)) {
    RETURN_IF_ERROR(engine.Snapshot(snapshot->finished_steps));
    RETURN_IF_ERROR(fault::Reach(fault::Point::kSnapshotTaken, {.step = snapshot->finished_steps}));
  }
  *done.mutable_memory() = ToWire(engine.memory());
  return done;
}

absl::StatusOr<v1::Done> Agent::Train(engine::Engine& engine, const engine::TrainStep& step) {
  RETURN_IF_ERROR(fault::Reach(fault::Point::kTrainBegun, {.step = step.step}));
  ASSIGN_OR_RETURN(const engine::StepStats stats, engine.Train(step));
  RETURN_IF_ERROR(fault::Reach(fault::Point::kTrained, {.step = step.step}));
  const engine::MemoryBytes memory = engine.memory();
  v1::Done done = DoneOf(stats, memory);
  Tell(step.bins, stats.seconds, &done);
  metrics_->CountStep(step.step, stats);
  metrics_->SetMemory(memory);
  KeepLast(step.step, stats, memory, done);
  return done;
}

absl::StatusOr<v1::Done> Agent::ForwardBackward(engine::Engine& engine,
                                                const engine::GradientBatch& batch) {
  ASSIGN_OR_RETURN(const engine::BatchStats stats, engine.ForwardBackward(batch));
  metrics_->CountBatch(stats);
  return DoneOf(stats, batch.bins);
}

absl::StatusOr<v1::Done> Agent::Update(engine::Engine& engine, const engine::UpdateStep& update) {
  ASSIGN_OR_RETURN(const engine::StepStats stats, engine.Update(update));
  const engine::MemoryBytes memory = engine.memory();
  v1::Done done = DoneOf(stats, memory);
  metrics_->CountUpdate(update.step, stats);
  metrics_->SetMemory(memory);
  KeepLast(update.step, stats, memory, done);
  return done;
}

// For Inspect.
void Agent::KeepLast(int64_t step, const engine::StepStats& stats,
                     const engine::MemoryBytes& memory, const v1::Done& done) {
  MutexLock lock(mu_);
  memory_ = memory;
  last_step_.set_last_step(step);
  last_step_.set_last_loss_sum(stats.loss_sum);
  last_step_.set_last_targets(stats.targets);
  last_step_.set_last_tokens(stats.tokens);
  const double seconds = stats.seconds.step;
  last_step_.set_tokens_per_second(seconds > 0 ? static_cast<double>(stats.tokens) / seconds : 0);
  *last_step_.mutable_seconds() = done.seconds();
  *last_step_.mutable_last_bin_ids() = done.bin_ids();
  last_step_.clear_experts();
  if (done.has_experts()) *last_step_.mutable_experts() = done.experts();
  last_step_.clear_expert_layers();
  for (const engine::LayerExpertUse& layer : stats.experts.layers) {
    *last_step_.add_expert_layers() = ToWire(layer);
  }
}

}  // namespace coxswain::agent
