// The second half of a step: the update by the gradients of all batches since the last one
// (forward_backward.h). Norm, decision and update of the parameters run on the device.
#ifndef COXSWAIN_WORKER_ENGINE_STEP_UPDATE_H_
#define COXSWAIN_WORKER_ENGINE_STEP_UPDATE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/commands/commands.h"
#include "worker/engine/step/state.h"

namespace coxswain::engine {

// InvalidArgument unless the rate is finite and >= 0.
absl::Status CheckRate(const UpdateStep& step);

// Launches the update by gradients that ranks have reduced, and waits for it. Empties
// state.pending. Fills `stats` but for targets and tokens; adds to stats->seconds. The timeline
// must have begun. It enforces self-verification: FailedPrecondition names the tensors.
absl::Status ApplyUpdate(State& state, const UpdateStep& step, StepStats* stats);

// FailedPrecondition: no gradients since the last update, or those of another step. Otherwise as
// ApplyUpdate.
absl::StatusOr<StepStats> RunUpdate(State& state, const UpdateStep& step);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_STEP_UPDATE_H_
