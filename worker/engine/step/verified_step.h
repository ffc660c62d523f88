// Self-verification of a step: launches that compute the inputs of verify.h, and the sums over the
// ranks. Norms per tensor reuse the chunks of the norm of all gradients. Only the first chunk of
// each piece of the trained values is read. If a tensor should have moved and did not there, its
// whole pieces are read, so that a tensor fails by all of its elements.
#ifndef COXSWAIN_WORKER_ENGINE_STEP_VERIFIED_STEP_H_
#define COXSWAIN_WORKER_ENGINE_STEP_VERIFIED_STEP_H_

#include "absl/status/status.h"
#include "worker/engine/commands/commands.h"
#include "worker/engine/step/state.h"

namespace coxswain::engine {

// Records the loaded values, writes the lists of gradients and values, and begins verification.
// Blocks.
void BeginVerification(State& state);

// Launches the check after an update. Results go to state.received_norms and received_bits.
void LaunchLook(State& state);

// Call it when a checked update is done and was applied. FailedPrecondition names the tensors that
// do not train; all ranks name the same. Other errors: the failure of a collective.
// `attending_targets`: of the batches of the step, on this rank.
absl::Status JudgeLook(State& state, const UpdateStep& step, double attending_targets);

// The number of targets that see two different tokens in their document, themselves included.
int64_t AttendingTargets(const BinBatch& bins);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_STEP_VERIFIED_STEP_H_
