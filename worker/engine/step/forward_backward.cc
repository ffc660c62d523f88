#include "worker/engine/step/forward_backward.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/heads/lm_head.h"
#include "worker/engine/heads/loss_head.h"
#include "worker/engine/heads/score_head.h"
#include "worker/engine/memory/written_gradients.h"
#include "worker/engine/ops/block.h"
#include "worker/engine/ops/micro_step.h"
#include "worker/engine/ops/router_losses.h"
#include "worker/engine/step/document_loss.h"
#include "worker/engine/step/plan_check.h"
#include "worker/engine/step/policy_loss.h"
#include "worker/engine/step/run_sweep.h"
#include "worker/engine/step/verified_step.h"

namespace coxswain::engine {
namespace {

void ComputeHead(const plan::Plan& plan, const Sweep& sweep) {
  if (plan.document_loss.of_scores()) return ScoreHead(plan, sweep);
  if (plan.document_loss.any()) return DocumentHead(plan, sweep);
  if (plan.policy_loss.any()) return PolicyHead(plan, sweep);
  LmHead(sweep, LossHeadOf(plan));
}

// All but slots, which are cleared when a unit takes them, and but `written` bytes. Companions are
// cleared whole: those of gradients that no product writes begin at zero too.
void ClearGradients(State& state, const std::vector<plan::Range>& written) {
  kernels::SetMemory(state.buffers.gradient_companions, 0, state.layout.map.companions,
                     state.stream);
  for (const plan::Range& bytes : Beside(written, state.layout.map.gradients)) {
    kernels::SetMemory(state.buffers.gradients + bytes.begin, 0, bytes.count(), state.stream);
  }
}

}  // namespace

void RunHeadAndBackward(State& state, const Sweep& sweep, bool last_micro_step,
                        PhaseSeconds* seconds) {
  const bool train = sweep.batch.train;
  const SweepKind kind{.name = "backward",
                       .last_micro_step = train && last_micro_step && state.plan.world_size() > 1,
                       .differs_first = train && !state.written_gradients.empty(),
                       .seconds = seconds,
                       .phase = train ? &seconds->backward : &seconds->forward};
  RunSweep(state, sweep, kind, BackwardVisits(state.model, state.ops, train),
           [](const State& s, const Sweep& p) {
             p.units->Enter(UnitOf(s.plan.model.num_layers));
             if (!p.idle()) ComputeHead(s.plan, p);
             if (!p.idle() && HasRouterLosses(p)) AddRouterLosses(p);
             if (p.batch.train) BackwardFromFinalNorm(p);
           });
}

int64_t CountTargets(const BinBatch& bins) {
  int64_t targets = 0;
  for (uint8_t target : bins.targets) targets += target != 0;
  return targets;
}

Scalars ScalarsOf(const State& state, const PendingGradients& of, const UpdateStep& update) {
  Scalars host;
  host.optimizer.lr = update.learning_rate;
  host.optimizer.beta1 = state.plan.beta1;
  host.optimizer.beta2 = state.plan.beta2;
  host.optimizer.eps = state.plan.eps;
  host.optimizer.applied_updates = state.applied_updates;
  host.gradient_scale = static_cast<float>(1.0 / static_cast<double>(of.loss_denominator));
  host.step = static_cast<uint32_t>(update.step);
  if (!state.warming_up) host.router_bias_rate = static_cast<float>(state.plan.router_bias_rate);
  return host;
}

absl::Status CheckBatch(const State& state, const GradientBatch& batch) {
  const std::string step = absl::StrCat("step ", batch.step);
  if (batch.loss_denominator < 1 || batch.step < 0) {
    return absl::InvalidArgumentError(absl::StrCat(step, ": loss denominator ",
                                                   batch.loss_denominator,
                                                   "; wanted step >= 0, denominator >= 1"));
  }
  RETURN_IF_ERROR(CheckTrainedHere(state, step));
  RETURN_IF_ERROR(CheckGroup(state, step));
  const PendingGradients& pending = state.pending;
  if (pending.batches > 0 && (pending.reduced || pending.step != batch.step ||
                              pending.loss_denominator != batch.loss_denominator)) {
    return absl::FailedPreconditionError(absl::StrCat(
        step, ", loss denominator ", batch.loss_denominator, ": the gradients of step ",
        pending.step, ", loss denominator ", pending.loss_denominator,
        pending.reduced ? ", are complete: its update comes next" : ", wait for their update"));
  }
  return CheckBins(state.plan, batch.bins);
}

void AccumulateGradients(State& state, const GradientBatch& batch, double learning_rate,
                         PhaseSeconds* seconds) {
  PendingGradients& pending = state.pending;
  const bool begins = pending.batches++ == 0;
  pending.step = batch.step;
  pending.loss_denominator = batch.loss_denominator;
  pending.reduced = batch.last;
  state.waits.clear();
  Scalars scalars = ScalarsOf(state, pending, {batch.step, learning_rate});
  scalars.documents = batch.documents;
  SendScalars(state, scalars);
  if (begins && state.router_use_doubles > 0) {
    kernels::SetMemory(state.buffers.router_use, 0, state.router_use_bytes(), state.stream);
  }
  BinCursor cursor;
  const int64_t rounds = RoundsOf(state, batch.bins);
  const bool idle = batch.bins.bin_ids.empty();
  if (begins && idle) ClearGradients(state, {});
  for (int64_t round = 0; round < rounds && state.exchange.status().ok(); ++round) {
    MicroBatch micro;
    if (cursor.bin < batch.bins.bin_ids.size()) {
      micro = state.stager.StageNext(batch.bins, state.buffers, state.stream, &cursor,
                                     batch.loss_denominator);
    }
    micro.train = true;
    RunReference(state, micro, round == 0, seconds);
    Sweep sweep{state.model, state.buffers, state.ops, micro, state.stream, round == 0};
    RunForwardSweep(state, sweep, "forward", seconds);
    state.timeline.Mark(&seconds->forward, state.stream);
    sweep.first = begins && round == 0;
    // Behind a forward, which hides that these launches are many.
    if (sweep.first && !idle) ClearGradients(state, state.written_gradients);
    RunHeadAndBackward(state, sweep, batch.last && round + 1 == rounds, seconds);
    state.timeline.Mark(&seconds->backward, state.stream);
  }
  if (!state.verification->finished()) {
    pending.attending_targets += static_cast<double>(AttendingTargets(batch.bins));
  }
}

absl::StatusOr<BatchStats> RunForwardBackward(State& state, const GradientBatch& batch) {
  RETURN_IF_ERROR(CheckBatch(state, batch));
  BatchStats stats;
  stats.targets = CountTargets(batch.bins);
  stats.tokens = static_cast<int64_t>(batch.bins.token_ids.size());
  state.timeline.Begin(state.stream);
  AccumulateGradients(state, batch, 0, &stats.seconds);
  ReceiveScalars(state);
  state.timeline.Mark(&stats.seconds.backward, state.stream);
  RETURN_IF_ERROR(FinishPhases(state, &stats.seconds));
  const Scalars& after = state.received[0];
  stats.loss_sum = after.loss_sum;
  state.pending.loss_sum += after.loss_sum;
  stats.preference = StatsOf(state.plan.document_loss, after.preference);
  stats.policy = StatsOf(after.policy);
  return stats;
}

}  // namespace coxswain::engine
