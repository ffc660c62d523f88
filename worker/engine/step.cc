#include "worker/engine/step.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/block.h"
#include "worker/engine/document_loss.h"
#include "worker/engine/expert_use.h"
#include "worker/engine/lm_head.h"
#include "worker/engine/micro_step.h"
#include "worker/engine/optimizer.h"
#include "worker/engine/plan_check.h"
#include "worker/engine/policy_loss.h"
#include "worker/engine/router_corrections.h"
#include "worker/engine/router_losses.h"
#include "worker/engine/run_sweep.h"
#include "worker/engine/score_head.h"
#include "worker/engine/verified_step.h"
#include "worker/engine/written_gradients.h"

namespace coxswain::engine {
namespace {

void SendScalars(State& state, const Scalars& scalars) {
  state.sent[0] = scalars;
  kernels::CopyMemory(state.buffers.scalars, state.sent.data(), sizeof(Scalars), state.stream);
}

void ReceiveScalars(State& state) {
  kernels::CopyMemory(state.received.data(), state.buffers.scalars, sizeof(Scalars), state.stream);
}

// Bytes of "router.use"; 0 without experts.
int64_t RouterUseBytes(const State& state) {
  return state.router_use_doubles * static_cast<int64_t>(sizeof(double));
}

void ReceiveRouterUse(State& state) {
  if (state.router_use_doubles == 0) return;
  kernels::CopyMemory(state.received_use.data(), state.buffers.router_use, RouterUseBytes(state),
                      state.stream);
}

Scalars ScalarsOf(const State& state, const TrainStep& step) {
  Scalars host;
  host.optimizer.lr = step.learning_rate;
  host.optimizer.beta1 = state.plan.beta1;
  host.optimizer.beta2 = state.plan.beta2;
  host.optimizer.eps = state.plan.eps;
  host.optimizer.applied_updates = state.applied_updates;
  host.gradient_scale = static_cast<float>(1.0 / static_cast<double>(step.loss_denominator));
  host.step = static_cast<uint32_t>(step.step);
  host.documents = step.documents;
  if (!state.warming_up) host.router_bias_rate = static_cast<float>(state.plan.router_bias_rate);
  return host;
}

absl::Status CheckStep(const State& state, const TrainStep& step) {
  if (step.loss_denominator < 1 || step.step < 0 || !(step.learning_rate >= 0) ||
      !std::isfinite(step.learning_rate)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "step ", step.step, ": loss denominator ", step.loss_denominator, ", learning rate ",
        step.learning_rate, "; wanted step >= 0, denominator >= 1, rate >= 0"));
  }
  RETURN_IF_ERROR(CheckTrains(state, absl::StrCat("step ", step.step)));
  RETURN_IF_ERROR(CheckGroup(state, absl::StrCat("step ", step.step)));
  return CheckBins(state.plan, step.bins);
}

int64_t CountTargets(const BinBatch& bins) {
  int64_t targets = 0;
  for (uint8_t target : bins.targets) targets += target != 0;
  return targets;
}

void RunForward(State& state, const Sweep& sweep, PhaseSeconds* seconds) {
  const SweepKind kind{.name = "forward",
                       .differs_first = state.model.dora,
                       .seconds = seconds,
                       .phase = &seconds->forward};
  RunSweep(state, sweep, kind, ForwardVisits(state.model),
           [](const State&, const Sweep& p) { ForwardToFinalNorm(p); });
}

void ComputeHead(const plan::Plan& plan, const Sweep& sweep) {
  if (plan.document_loss.of_scores()) return ScoreHead(plan, sweep);
  if (plan.document_loss.any()) return DocumentHead(plan, sweep);
  if (plan.policy_loss.any()) return PolicyHead(plan, sweep);
  LmHead(sweep, LossHeadOf(plan));
}

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

// All but slots, which are cleared when a unit takes them, and but `written` bytes.
void ClearGradients(State& state, const std::vector<plan::Range>& written) {
  for (const plan::Range& bytes : Beside(written, state.layout.map.gradients)) {
    kernels::SetMemory(state.buffers.gradients + bytes.begin, 0, bytes.count(), state.stream);
  }
}

// Norm, loss and use of experts of the step, the same bits on all ranks.
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
        DecideUpdate(state.buffers, state.plan.max_grad_norm, state.stream);
        MoveCorrections(state.plan, state.buffers, state.stream);
        UpdateAll(state, watch);
      },
      state.stream);
  state.exchange.Updated();
  if (state.plan.device == "cpu") {
    CountWait(exposed, &seconds->optimizer, seconds);
  } else {
    state.waits.push_back({&exposed, &seconds->optimizer});
  }
  ReceiveScalars(state);
  ReceiveRouterUse(state);
  if (verify) LaunchLook(state);
}

// What the finished step left in state.received.
absl::Status ReadStats(State& state, const TrainStep& step, bool verify, StepStats* stats) {
  const Scalars& after = state.received[0];
  stats->loss_sum = after.loss_sum;
  stats->global_loss_sum = state.plan.world_size() > 1 ? after.global_loss_sum : after.loss_sum;
  stats->nonfinite = static_cast<int64_t>(after.norm_sums.nonfinite);
  stats->grad_norm = after.norm;
  stats->applied = after.optimizer.skip == 0;
  state.applied_updates = after.optimizer.applied_updates;
  stats->preference = StatsOf(state.plan.document_loss, after.preference);
  stats->policy = StatsOf(after.policy);
  stats->experts = ExpertUseOf(state.plan, state.received_use.data(), step.loss_denominator);
  if (stats->applied && !std::isfinite(stats->global_loss_sum)) {
    return absl::FailedPreconditionError(absl::StrCat("self-verification: step ", step.step,
                                                      ": the loss is ", stats->global_loss_sum,
                                                      " while every gradient is finite"));
  }
  if (!stats->applied || step.learning_rate == 0) return absl::OkStatus();
  if (verify) return JudgeLook(state, step);
  if (!state.verification->finished()) state.verification->CountUpdate(step.learning_rate);
  return absl::OkStatus();
}

}  // namespace

void AccumulateGradients(State& state, const TrainStep& step, PhaseSeconds* seconds) {
  state.waits.clear();
  SendScalars(state, ScalarsOf(state, step));
  if (state.router_use_doubles > 0) {
    kernels::SetMemory(state.buffers.router_use, 0, RouterUseBytes(state), state.stream);
  }
  BinCursor cursor;
  const int64_t rounds = RoundsOf(state, step.bins);
  const bool idle = step.bins.bin_ids.empty();
  if (idle) ClearGradients(state, {});
  for (int64_t round = 0; round < rounds && state.exchange.status().ok(); ++round) {
    MicroBatch batch;
    if (cursor.bin < step.bins.bin_ids.size()) {
      batch = state.stager.StageNext(step.bins, state.buffers, state.stream, &cursor,
                                     step.loss_denominator);
    }
    batch.train = true;
    RunReference(state, batch, seconds);
    const Sweep sweep{state.model, state.buffers, state.ops, batch, state.stream, round == 0};
    RunForward(state, sweep, seconds);
    state.timeline.Mark(&seconds->forward, state.stream);
    // Behind a forward, which hides that these launches are many.
    if (sweep.first && !idle) ClearGradients(state, state.written_gradients);
    RunHeadAndBackward(state, sweep, round + 1 == rounds, seconds);
    state.timeline.Mark(&seconds->backward, state.stream);
  }
}

absl::StatusOr<StepStats> RunTrainStep(State& state, const TrainStep& step) {
  RETURN_IF_ERROR(CheckStep(state, step));
  StepStats stats;
  stats.targets = CountTargets(step.bins);
  stats.tokens = static_cast<int64_t>(step.bins.token_ids.size());
  const bool verify = !state.verification->finished() && step.learning_rate > 0 &&
                      state.verification->LooksAt(step.learning_rate);
  state.timeline.Begin(state.stream);
  AccumulateGradients(state, step, &stats.seconds);
  RETURN_IF_ERROR(state.exchange.status());
  LaunchUpdate(state, verify, &stats.seconds);
  state.timeline.Mark(&stats.seconds.optimizer, state.stream);
  RETURN_IF_ERROR(FinishPhases(state, &stats.seconds));
  RETURN_IF_ERROR(ReadStats(state, step, verify, &stats));
  if (!state.warming_up) {
    state.snapshot.PinBeside(state.layout, state.arena.HoldHost("snapshot"));
  }
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
    RunReference(state, batch, &stats.seconds);
    const Sweep sweep{state.model, state.buffers, state.ops, batch, state.stream, round == 0};
    RunForward(state, sweep, &stats.seconds);
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
