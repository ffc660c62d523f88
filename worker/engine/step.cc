#include "worker/engine/step.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/dora.h"
#include "worker/engine/lm_head.h"
#include "worker/engine/micro_step.h"
#include "worker/engine/optimizer.h"
#include "worker/engine/part_numbers.h"
#include "worker/engine/plan_check.h"

namespace coxswain::engine {
namespace {

// A range of a profiler's timeline.
class Range {
 public:
  explicit Range(const char* name) { kernels::PushRange(name); }
  ~Range() { kernels::PopRange(); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

void SendScalars(State& state, const Scalars& scalars) {
  state.sent[0] = scalars;
  kernels::CopyMemory(state.buffers.scalars, state.sent.data(), sizeof(Scalars), state.stream);
}

void ReceiveScalars(State& state) {
  kernels::CopyMemory(state.received.data(), state.buffers.scalars, sizeof(Scalars), state.stream);
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

int64_t CountTargets(const BinBatch& bins) {
  int64_t targets = 0;
  for (uint8_t target : bins.targets) targets += target != 0;
  return targets;
}

void RunDoraFactors(State& state) {
  if (!state.model.dora) return;
  const Model& model = state.model;
  const Buffers& buffers = state.buffers;
  kernels::Stream* stream = state.stream;
  state.graphs.Run(
      "dora", MicroBatch{},
      [&model, &buffers, stream] { UpdateDoraFactors(model, buffers, stream); }, stream);
}

void RunForward(State& state, const Pass& pass) {
  const Range range("forward");
  state.graphs.Run(
      "forward", pass.batch, [pass] { ForwardToFinalNorm(pass); }, state.stream);
}

void RunHeadAndBackward(State& state, const Pass& pass) {
  const Range range("backward");
  const int64_t chunk = state.plan.lm_head_chunk_tokens;
  const kernels::CrossEntropySpec loss = LossSpec(state.plan);
  state.graphs.Run(
      "backward", pass.batch,
      [pass, chunk, loss] {
        LmHead(pass, chunk, loss);
        if (pass.batch.train) BackwardFromFinalNorm(pass);
      },
      state.stream);
}

// Sums gradients and loss over the ranks, on the device.
absl::Status Reduce(State& state) {
  if (state.group == nullptr) return absl::OkStatus();
  const Range range("reduce");
  constexpr comm::Communicator kWorld = comm::Communicator::kWorld;
  const ParameterBuffers& parameters = state.buffers.parameters;
  const ParameterLayout& layout = state.layout;
  Scalars* scalars = state.buffers.scalars;
  kernels::Stream* stream = state.stream;
  RETURN_IF_ERROR(state.group->AllReduceSum(kWorld, parameters.gradients, layout.gradients,
                                            kernels::DType::kFloat32, stream));
  RETURN_IF_ERROR(state.group->AllReduceSum(
      kWorld, parameters.bf16_gradients, layout.bf16_gradients, kernels::DType::kBFloat16, stream));
  kernels::CopyMemory(&scalars->global_loss_sum, &scalars->loss_sum, sizeof(double), stream);
  return state.group->AllReduceSum(kWorld, &scalars->global_loss_sum, 1, stream);
}

// Norm, decision and update, with the numbers of the parts around them while `verify`.
void LaunchUpdate(State& state, bool verify) {
  const Range range("optimizer");
  if (verify) LaunchPartGradients(state.plan, state.parts, state.buffers, state.stream);
  const UpdateArgs args{{0, state.layout.trainable_tensors, state.layout.trainable_chunks},
                        state.plan.max_grad_norm,
                        state.plan.seed};
  const Buffers& buffers = state.buffers;
  kernels::Stream* stream = state.stream;
  state.graphs.Run(
      "optimizer", MicroBatch{},
      [args, &buffers, stream] {
        NormOf(buffers, args.all, &buffers.scalars->norm_sums, stream);
        UpdateParameters(buffers, args, stream);
      },
      stream);
  ReceiveScalars(state);
  if (!verify) return;
  const ParameterStore store(state.plan, state.layout, state.buffers);
  LaunchPartValues(store, state.parts, state.buffers, state.stream);
  kernels::CopyMemory(state.received_parts.data(), state.buffers.verification, kVerificationBytes,
                      state.stream);
}

absl::Status Verify(State& state) {
  const std::vector<PartNumbers> numbers(state.received_parts.data(),
                                         state.received_parts.data() + state.parts.size());
  RETURN_IF_ERROR(state.verification->CheckGradients(numbers));
  return state.verification->CheckUpdate(numbers);
}

// What the finished step left in state.received.
absl::Status ReadStats(State& state, const TrainStep& step, bool verify, StepStats* stats) {
  const Scalars& after = state.received[0];
  stats->loss_sum = after.loss_sum;
  stats->global_loss_sum = state.group == nullptr ? after.loss_sum : after.global_loss_sum;
  stats->nonfinite = static_cast<int64_t>(after.norm_sums.nonfinite);
  stats->grad_norm = after.norm;
  stats->applied = after.optimizer.skip == 0;
  state.applied_updates = after.optimizer.applied_updates;
  if (stats->applied && !std::isfinite(stats->global_loss_sum)) {
    return absl::FailedPreconditionError(absl::StrCat("self-verification: step ", step.step,
                                                      ": the loss is ", stats->global_loss_sum,
                                                      " while every gradient is finite"));
  }
  if (verify && stats->applied && step.learning_rate > 0) return Verify(state);
  return absl::OkStatus();
}

}  // namespace

void AccumulateGradients(State& state, const TrainStep& step, PhaseSeconds* seconds) {
  SendScalars(state, ScalarsOf(state, step));
  ZeroGradients(state.layout, state.buffers, state.stream);
  RunDoraFactors(state);
  BinCursor cursor;
  while (cursor.bin < step.bins.bin_ids.size()) {
    MicroBatch batch = state.stager.StageNext(step.bins, state.buffers, state.stream, &cursor);
    batch.train = true;
    const Pass pass{state.model, state.buffers, batch, state.stream};
    RunForward(state, pass);
    state.timeline.Mark(&seconds->forward, state.stream);
    RunHeadAndBackward(state, pass);
    state.timeline.Mark(&seconds->backward, state.stream);
  }
}

absl::StatusOr<StepStats> RunTrainStep(State& state, const TrainStep& step) {
  RETURN_IF_ERROR(CheckStep(state, step));
  StepStats stats;
  stats.targets = CountTargets(step.bins);
  stats.tokens = static_cast<int64_t>(step.bins.token_ids.size());
  const bool verify = !state.verification->finished();
  state.timeline.Begin(state.stream);
  AccumulateGradients(state, step, &stats.seconds);
  RETURN_IF_ERROR(Reduce(state));
  state.timeline.Mark(&stats.seconds.comm, state.stream);
  LaunchUpdate(state, verify);
  state.timeline.Mark(&stats.seconds.optimizer, state.stream);
  stats.seconds.step = state.timeline.Finish();
  if (state.group != nullptr) RETURN_IF_ERROR(state.group->Poll());  // else the numbers are nothing
  RETURN_IF_ERROR(ReadStats(state, step, verify, &stats));
  return stats;
}

absl::StatusOr<EvalStats> RunEvaluation(State& state, const BinBatch& bins) {
  RETURN_IF_ERROR(CheckBins(state.plan, bins));
  EvalStats stats;
  state.timeline.Begin(state.stream);
  SendScalars(state, Scalars{});
  RunDoraFactors(state);
  BinCursor cursor;
  while (cursor.bin < bins.bin_ids.size()) {
    const MicroBatch batch = state.stager.StageNext(bins, state.buffers, state.stream, &cursor);
    const Pass pass{state.model, state.buffers, batch, state.stream};
    RunForward(state, pass);
    RunHeadAndBackward(state, pass);
  }
  ReceiveScalars(state);
  state.timeline.Mark(&stats.seconds.forward, state.stream);
  stats.seconds.step = state.timeline.Finish();
  stats.loss_sum = state.received[0].loss_sum;
  stats.targets = CountTargets(bins);
  stats.tokens = static_cast<int64_t>(bins.token_ids.size());
  return stats;
}

}  // namespace coxswain::engine
