// The training step, which joins its halves without a wait between them, and the evaluation.
#ifndef COXSWAIN_WORKER_ENGINE_STEP_STEP_H_
#define COXSWAIN_WORKER_ENGINE_STEP_STEP_H_

#include "absl/status/statusor.h"
#include "worker/engine/commands/commands.h"
#include "worker/engine/step/state.h"

namespace coxswain::engine {

// FailedPrecondition where gradients wait for their update. Otherwise as RunForwardBackward and
// RunUpdate.
absl::StatusOr<StepStats> RunTrainStep(State& state, const TrainStep& step);
absl::StatusOr<EvalStats> RunEvaluation(State& state, const BinBatch& bins,
                                        const kernels::DocumentScalars& documents = {});

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_STEP_STEP_H_
