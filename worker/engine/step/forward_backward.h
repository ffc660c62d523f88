// The first half of a step: forward and backward of bins. Gradients add up over batches until the
// update (update.h) takes them.
#ifndef COXSWAIN_WORKER_ENGINE_STEP_FORWARD_BACKWARD_H_
#define COXSWAIN_WORKER_ENGINE_STEP_FORWARD_BACKWARD_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/commands/commands.h"
#include "worker/engine/ops/sweep.h"
#include "worker/engine/step/state.h"

namespace coxswain::engine {

// Launches the other half of a sweep, which adds the loss to scalars->loss_sum; without
// sweep.batch.train it is the head alone. `last_micro_step`: ranks reduce whole gradients.
void RunHeadAndBackward(State& state, const Sweep& sweep, bool last_micro_step,
                        PhaseSeconds* seconds);

int64_t CountTargets(const BinBatch& bins);

// The scalars of a step's batch or update.
Scalars ScalarsOf(const State& state, const PendingGradients& of, const UpdateStep& update);

// InvalidArgument: wrong numbers or bins. FailedPrecondition: the gradients of another step, or of
// another denominator, wait for their update, or those of this step are reduced.
absl::Status CheckBatch(const State& state, const GradientBatch& batch);

// Launches the micro-steps of this rank's bins. They sum gradients into the gradient buffers, with
// batch.last over the ranks too, and the rank's losses into scalars->loss_sum. Marks the phases in
// state.timeline, which must have begun. `learning_rate`: of the update, where it comes with this
// batch.
void AccumulateGradients(State& state, const GradientBatch& batch, double learning_rate,
                         PhaseSeconds* seconds);

absl::StatusOr<BatchStats> RunForwardBackward(State& state, const GradientBatch& batch);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_STEP_FORWARD_BACKWARD_H_
