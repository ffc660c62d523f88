#include "worker/engine/step/update.h"

#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/plan/buffer_names.h"
#include "common/plan/fp8_history.h"
#include "common/status_macros.h"
#include "worker/engine/memory/fp8_history.h"
#include "worker/engine/memory/router_corrections.h"
#include "worker/engine/ops/expert_use.h"
#include "worker/engine/step/document_loss.h"
#include "worker/engine/step/forward_backward.h"
#include "worker/engine/step/optimizer.h"
#include "worker/engine/step/policy_loss.h"
#include "worker/engine/step/run_sweep.h"
#include "worker/engine/step/verified_step.h"

namespace coxswain::engine {
namespace {

void ReceiveRouterUse(State& state) {
  if (state.router_use_doubles == 0) return;
  kernels::CopyMemory(state.received_use.data(), state.buffers.router_use, state.router_use_bytes(),
                      state.stream);
}

// Norm, loss, use of experts and largest operands of the step, the same bits on all ranks.
void SumOverRanks(State& state, Stopwatch* exposed) {
  Scalars* scalars = state.buffers.scalars;
  kernels::CopyMemory(&scalars->global_loss_sum, &scalars->loss_sum, sizeof(double), state.stream);
  // Replicas hold the same sums of gradients: one of them counts.
  if (state.layout.place.replica > 0) {
    kernels::SetMemory(&scalars->norm_sums, 0, sizeof(kernels::NormSums), state.stream);
  }
  exposed->Start(state.stream);
  state.exchange.SumDoubles(&scalars->norm_sums.sum_squares, kStepSums);
  if (state.router_use_doubles > 0) {
    state.exchange.SumDoubles(state.buffers.router_use, state.router_use_doubles);
  }
  if (state.buffers.fp8_gathered != nullptr) {
    state.exchange.GatherFloats(state.buffers.fp8_gathered, plan::Fp8GatheredOperands(state.plan));
  }
  exposed->Stop(state.stream);
}

// The embedding first where it can travel while the others are updated.
void UpdateAll(State& state, Stopwatch* exposed) {
  const ParameterLayout& n = state.layout;
  if (!state.exchange.FetchesEmbeddingEarly()) {
    const TensorRange all{0, n.pieces, n.piece_chunks};
    return UpdateParameters(state.plan, state.buffers, {all, true}, state.stream);
  }
  const TensorRange embedding{0, n.embedding_pieces, n.embedding_chunks};
  const TensorRange others{embedding.count, n.pieces - embedding.count,
                           n.piece_chunks - embedding.chunks};
  const ExchangeScript script;
  UnitSweep units(state.exchange, script, exposed);
  UpdateParameters(state.plan, state.buffers, {embedding, false}, state.stream);
  units.FetchEmbedding();
  UpdateParameters(state.plan, state.buffers, {others, true}, state.stream);
  units.Finish();
}

// Norm, decision and update, and while `verify` the look at them.
void LaunchUpdate(State& state, bool verify, PhaseSeconds* seconds) {
  const Range range("optimizer");
  state.snapshot.AwaitCopied(state.stream);
  const Stopwatch& exposed = state.graphs.Run(
      "optimizer", MicroBatch{},
      [&state](Stopwatch* watch) {
        NormOf(state.gradient_list, state.buffers, &state.buffers.scalars->norm_sums, state.stream);
        watch->Reset();
        if (state.plan.world_size() > 1) SumOverRanks(state, watch);
        JudgeObserved(state.plan, state.buffers, state.stream);
        DecideUpdate(state.buffers, state.plan.max_grad_norm, state.stream);
        MoveFp8History(state.plan, state.buffers, state.stream);
        MoveCorrections(state.plan, state.buffers, state.stream);
        UpdateAll(state, watch);
      },
      state.stream);
  state.exchange.Updated();
  if (state.plan.device == DeviceKind::kCpu) {
    CountWait(exposed, &seconds->optimizer, seconds);
  } else {
    state.waits.push_back({&exposed, &seconds->optimizer});
  }
  ReceiveScalars(state);
  ReceiveRouterUse(state);
  if (verify) LaunchLook(state);
}

// What the finished step left in state.received.
absl::Status ReadStats(State& state, const UpdateStep& step, const PendingGradients& taken,
                       bool verify, StepStats* stats) {
  const Scalars& after = state.received[0];
  stats->loss_sum = after.loss_sum;
  stats->global_loss_sum = state.plan.world_size() > 1 ? after.global_loss_sum : after.loss_sum;
  stats->loss_denominator = taken.loss_denominator;
  stats->nonfinite = static_cast<int64_t>(after.norm_sums.nonfinite);
  stats->grad_norm = after.norm;
  stats->applied = after.optimizer.skip == 0;
  state.applied_updates = after.optimizer.applied_updates;
  stats->preference = StatsOf(state.plan.document_loss, after.preference);
  stats->policy = StatsOf(after.policy);
  stats->experts = ExpertUseOf(state.plan, state.received_use.data(), taken.loss_denominator);
  if (stats->applied && !std::isfinite(stats->global_loss_sum)) {
    return absl::FailedPreconditionError(absl::StrCat("self-verification: step ", step.step,
                                                      ": the loss is ", stats->global_loss_sum,
                                                      " while every gradient is finite"));
  }
  if (!stats->applied || step.learning_rate == 0) return absl::OkStatus();
  if (verify) return JudgeLook(state, step, taken.attending_targets);
  if (!state.verification->finished()) state.verification->CountUpdate(step.learning_rate);
  return absl::OkStatus();
}

// What batches left on this rank alone: a sweep that computes nothing joins the ranks' sums.
void ReduceGradients(State& state, PhaseSeconds* seconds) {
  MicroBatch nothing;
  nothing.train = true;
  const Sweep sweep{state.model, state.buffers, state.ops, nothing, state.stream};
  RunHeadAndBackward(state, sweep, /*last_micro_step=*/true, seconds);
  state.pending.reduced = true;
  state.timeline.Mark(&seconds->backward, state.stream);
}

absl::Status CheckUpdate(const State& state, const UpdateStep& update) {
  RETURN_IF_ERROR(CheckRate(update));
  const std::string step = absl::StrCat("update of step ", update.step);
  RETURN_IF_ERROR(CheckTrainedHere(state, step));
  RETURN_IF_ERROR(CheckGroup(state, step));
  if (state.pending.batches == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        step, ": there are no gradients since the last update; forward and backward come first"));
  }
  if (state.pending.step == update.step) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(step, ": the gradients are of step ", state.pending.step));
}

}  // namespace

absl::Status CheckRate(const UpdateStep& step) {
  if (step.learning_rate >= 0 && std::isfinite(step.learning_rate)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("step ", step.step, ": learning rate ",
                                                 step.learning_rate, "; wanted a finite one >= 0"));
}

absl::Status ApplyUpdate(State& state, const UpdateStep& step, StepStats* stats) {
  const bool verify = !state.verification->finished() && step.learning_rate > 0 &&
                      state.verification->LooksAt(step.learning_rate);
  const PendingGradients taken = std::exchange(state.pending, {});
  LaunchUpdate(state, verify, &stats->seconds);
  state.timeline.Mark(&stats->seconds.optimizer, state.stream);
  RETURN_IF_ERROR(FinishPhases(state, &stats->seconds));
  RETURN_IF_ERROR(ReadStats(state, step, taken, verify, stats));
  if (!state.warming_up) {
    state.snapshot.PinBeside(state.layout, state.arena.HoldHost(plan::buffers::kSnapshot));
  }
  return absl::OkStatus();
}

absl::StatusOr<StepStats> RunUpdate(State& state, const UpdateStep& step) {
  RETURN_IF_ERROR(CheckUpdate(state, step));
  StepStats stats;
  state.waits.clear();
  state.timeline.Begin(state.stream);
  Scalars scalars = ScalarsOf(state, state.pending, step);
  scalars.loss_sum = state.pending.loss_sum;
  SendScalars(state, scalars);
  if (state.plan.world_size() > 1 && !state.pending.reduced) {
    ReduceGradients(state, &stats.seconds);
    RETURN_IF_ERROR(state.exchange.status());
  }
  RETURN_IF_ERROR(ApplyUpdate(state, step, &stats));
  return stats;
}

}  // namespace coxswain::engine
