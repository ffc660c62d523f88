#include "worker/engine/step/step.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/step/document_loss.h"
#include "worker/engine/step/forward_backward.h"
#include "worker/engine/step/plan_check.h"
#include "worker/engine/step/policy_loss.h"
#include "worker/engine/step/run_sweep.h"
#include "worker/engine/step/update.h"

namespace coxswain::engine {
namespace {

absl::Status CheckStep(const State& state, const TrainStep& step) {
  RETURN_IF_ERROR(CheckRate(step.update()));
  if (state.pending.batches > 0 || !step.last) {
    return absl::FailedPreconditionError(
        absl::StrCat("step ", step.step, ": it is its only batch, and ", state.pending.batches,
                     " batches of step ", state.pending.step, " wait for their update"));
  }
  return CheckBatch(state, step);
}

}  // namespace

absl::StatusOr<StepStats> RunTrainStep(State& state, const TrainStep& step) {
  RETURN_IF_ERROR(CheckStep(state, step));
  StepStats stats;
  stats.targets = CountTargets(step.bins);
  stats.tokens = static_cast<int64_t>(step.bins.token_ids.size());
  state.timeline.Begin(state.stream);
  AccumulateGradients(state, step, step.learning_rate, &stats.seconds);
  RETURN_IF_ERROR(state.exchange.status());
  RETURN_IF_ERROR(ApplyUpdate(state, step.update(), &stats));
  return stats;
}

absl::StatusOr<EvalStats> RunEvaluation(State& state, const BinBatch& bins,
                                        const kernels::DocumentScalars& documents) {
  RETURN_IF_ERROR(CheckTrains(state, "evaluate"));
  RETURN_IF_ERROR(CheckGroup(state, "evaluate"));
  RETURN_IF_ERROR(CheckBins(state.plan, bins));
  EvalStats stats;
  state.waits.clear();
  state.timeline.Begin(state.stream);
  Scalars scalars;
  scalars.documents = documents;
  SendScalars(state, scalars);
  BinCursor cursor;
  const int64_t rounds = RoundsOf(state, bins);
  for (int64_t round = 0; round < rounds && state.exchange.status().ok(); ++round) {
    MicroBatch batch;
    if (cursor.bin < bins.bin_ids.size()) {
      batch = state.stager.StageNext(bins, state.buffers, state.stream, &cursor);
    }
    RunReference(state, batch, round == 0, &stats.seconds);
    const Sweep sweep{state.model, state.buffers, state.ops, batch, state.stream, round == 0};
    RunForwardSweep(state, sweep, "forward", &stats.seconds);
    RunHeadAndBackward(state, sweep, false, &stats.seconds);
  }
  ReceiveScalars(state);
  state.timeline.Mark(&stats.seconds.forward, state.stream);
  RETURN_IF_ERROR(FinishPhases(state, &stats.seconds));
  stats.loss_sum = state.received[0].loss_sum;
  stats.correct_targets = std::llround(state.received[0].hits);
  stats.preference = StatsOf(state.plan.document_loss, state.received[0].preference);
  stats.policy = StatsOf(state.received[0].policy);
  stats.targets = CountTargets(bins);
  stats.tokens = static_cast<int64_t>(bins.token_ids.size());
  return stats;
}

}  // namespace coxswain::engine
