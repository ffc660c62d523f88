#include "worker/engine/step.h"

#include <chrono>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/lm_head.h"
#include "worker/engine/micro_step.h"
#include "worker/engine/optimizer.h"
#include "worker/engine/plan_check.h"

namespace coxswain::engine {
namespace {

using Clock = std::chrono::steady_clock;

// Adds the time since `*since` to `*seconds` and restarts it. Waits for the stream first.
void Lap(kernels::Stream* stream, Clock::time_point* since, double* seconds) {
  kernels::Synchronize(stream);
  const Clock::time_point now = Clock::now();
  *seconds += std::chrono::duration<double>(now - *since).count();
  *since = now;
}

Scalars ReadScalars(const State& state) {
  Scalars host;
  kernels::CopyMemory(&host, state.buffers.scalars, sizeof(host), state.stream);
  kernels::Synchronize(state.stream);
  return host;
}

void WriteScalars(const State& state, const Scalars& host) {
  kernels::CopyMemory(state.buffers.scalars, &host, sizeof(host), state.stream);
  kernels::Synchronize(state.stream);
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
  return host;
}

absl::Status CheckStep(const State& state, const TrainStep& step) {
  if (step.loss_denominator < 1 || step.step < 0 || !(step.learning_rate >= 0) ||
      !std::isfinite(step.learning_rate)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "step ", step.step, ": loss denominator ", step.loss_denominator, ", learning rate ",
        step.learning_rate, "; wanted step >= 0, denominator >= 1, rate >= 0"));
  }
  if (state.plan.world_size() > 1 && state.group == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("step ", step.step, ": rank ", state.rank,
                                                      " of ", state.plan.world_size(),
                                                      " ranks has no group; Connect comes first"));
  }
  return CheckBins(state.plan, step.bins);
}

// Sums gradients and loss over the ranks.
absl::Status Reduce(State& state, StepStats* stats) {
  stats->global_loss_sum = stats->loss_sum;
  if (state.group == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(state.group->AllReduceSum(state.buffers.gradients, state.layout.trainable));
  return state.group->AllReduceSum(&stats->global_loss_sum, 1);
}

absl::Status VerifyGradients(State& state) {
  std::vector<double> sum_squares;
  int64_t first = 0;
  for (const Part& part : state.parts) {
    TensorRange range{first, static_cast<int64_t>(part.parameters.size()), 0};
    for (size_t i : part.parameters) {
      range.chunks += kernels::TensorChunks(state.plan.parameters[i].elements());
    }
    NormOf(state.buffers, range, &state.buffers.scalars->part_sums, state.stream);
    sum_squares.push_back(ReadScalars(state).part_sums.sum_squares);
    first += range.count;
  }
  return state.verification->CheckGradients(sum_squares);
}

// Norm, verification, update; fills the stats that depend on them.
absl::Status Optimize(State& state, const TrainStep& step, StepStats* stats) {
  const TensorRange all{0, state.layout.trainable_tensors, state.layout.trainable_chunks};
  NormOf(state.buffers, all, &state.buffers.scalars->norm_sums, state.stream);
  const kernels::NormSums sums = ReadScalars(state).norm_sums;
  stats->nonfinite = static_cast<int64_t>(sums.nonfinite);
  const bool finite = std::isfinite(sums.sum_squares);
  if (finite && !std::isfinite(stats->global_loss_sum)) {
    return absl::FailedPreconditionError(absl::StrCat("self-verification: step ", step.step,
                                                      ": the loss is ", stats->global_loss_sum,
                                                      " while every gradient is finite"));
  }
  const bool verify = finite && step.learning_rate > 0 && !state.verification->finished();
  if (verify) RETURN_IF_ERROR(VerifyGradients(state));
  UpdateParameters(state.buffers, all, state.plan.max_grad_norm, state.stream);
  const Scalars after = ReadScalars(state);
  stats->grad_norm = after.norm;
  stats->applied = after.optimizer.skip == 0;
  state.applied_updates = after.optimizer.applied_updates;
  if (verify && stats->applied) return state.verification->CheckUpdate(state.buffers.weights);
  return absl::OkStatus();
}

int64_t CountTargets(const BinBatch& bins) {
  int64_t targets = 0;
  for (uint8_t target : bins.targets) targets += target != 0;
  return targets;
}

}  // namespace

void AccumulateGradients(State& state, const TrainStep& step, StepStats* stats) {
  WriteScalars(state, ScalarsOf(state, step));
  kernels::SetMemory(state.buffers.gradients, 0, state.layout.trainable * 4, state.stream);
  const bool recompute = state.plan.recompute == "block";
  BinCursor cursor;
  Clock::time_point since = Clock::now();
  while (cursor.bin < step.bins.bin_ids.size()) {
    MicroBatch batch = state.stager.StageNext(step.bins, state.buffers, state.stream, &cursor);
    batch.train = true;
    const Pass pass{state.model, state.buffers, batch, state.stream};
    ForwardToFinalNorm(pass);
    Lap(state.stream, &since, &stats->seconds.forward);
    LmHead(pass, state.plan.lm_head_chunk_tokens, LossSpec(state.plan));
    BackwardFromFinalNorm(pass, recompute);
    Lap(state.stream, &since, &stats->seconds.backward);
  }
  stats->loss_sum = ReadScalars(state).loss_sum;
  stats->targets = CountTargets(step.bins);
  stats->tokens = static_cast<int64_t>(step.bins.token_ids.size());
}

absl::StatusOr<StepStats> RunTrainStep(State& state, const TrainStep& step) {
  RETURN_IF_ERROR(CheckStep(state, step));
  StepStats stats;
  const Clock::time_point begin = Clock::now();
  AccumulateGradients(state, step, &stats);
  Clock::time_point since = Clock::now();
  RETURN_IF_ERROR(Reduce(state, &stats));
  Lap(state.stream, &since, &stats.seconds.comm);
  RETURN_IF_ERROR(Optimize(state, step, &stats));
  Lap(state.stream, &since, &stats.seconds.optimizer);
  stats.seconds.step = std::chrono::duration<double>(since - begin).count();
  return stats;
}

absl::StatusOr<EvalStats> RunEvaluation(State& state, const BinBatch& bins) {
  RETURN_IF_ERROR(CheckBins(state.plan, bins));
  EvalStats stats;
  const Clock::time_point begin = Clock::now();
  Clock::time_point since = begin;
  WriteScalars(state, Scalars{});
  BinCursor cursor;
  while (cursor.bin < bins.bin_ids.size()) {
    const MicroBatch batch = state.stager.StageNext(bins, state.buffers, state.stream, &cursor);
    const Pass pass{state.model, state.buffers, batch, state.stream};
    ForwardToFinalNorm(pass);
    LmHead(pass, state.plan.lm_head_chunk_tokens, LossSpec(state.plan));
  }
  Lap(state.stream, &since, &stats.seconds.forward);
  stats.loss_sum = ReadScalars(state).loss_sum;
  stats.targets = CountTargets(bins);
  stats.tokens = static_cast<int64_t>(bins.token_ids.size());
  stats.seconds.step = stats.seconds.forward;
  return stats;
}

}  // namespace coxswain::engine
