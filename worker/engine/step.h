// The training step and the evaluation.
#ifndef COXSWAIN_WORKER_ENGINE_STEP_H_
#define COXSWAIN_WORKER_ENGINE_STEP_H_

#include "absl/status/statusor.h"
#include "worker/engine/commands.h"
#include "worker/engine/state.h"

namespace coxswain::engine {

// Launches the micro-steps of this rank's bins. They sum gradients into the gradient buffers and
// over the ranks, and the rank's losses into scalars->loss_sum. Marks the phases in state.timeline,
// which must have begun.
void AccumulateGradients(State& state, const TrainStep& step, PhaseSeconds* seconds);

absl::StatusOr<StepStats> RunTrainStep(State& state, const TrainStep& step);
absl::StatusOr<EvalStats> RunEvaluation(State& state, const BinBatch& bins,
                                        const kernels::DocumentScalars& documents = {});

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_STEP_H_
