// How self-verification looks at a step: launches that compute what verify.h judges, and the sums
// over the ranks. Norms of the gradients come from what the norm of all left of its chunks. Of the
// trained values the first chunk of each piece is read; the whole pieces of those tensors alone
// that should have moved and did not there, so that a tensor fails by all of its elements.
#ifndef COXSWAIN_WORKER_ENGINE_VERIFIED_STEP_H_
#define COXSWAIN_WORKER_ENGINE_VERIFIED_STEP_H_

#include "absl/status/status.h"
#include "worker/engine/commands.h"
#include "worker/engine/state.h"

namespace coxswain::engine {

// Remembers what was loaded, and begins to look. Blocks. Lists of gradients and values are written.
void BeginVerification(State& state);

// Launches the look at an update, behind it, into state.received_norms and received_bits.
void LaunchLook(State& state);

// Called when an update that was looked at is done and was applied. FailedPrecondition names the
// tensors that do not train, the same on all ranks; else the failure of a collective.
absl::Status JudgeLook(State& state, const TrainStep& step);

// Targets that see two different tokens in their document, themselves counted.
int64_t AttendingTargets(const BinBatch& bins);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_VERIFIED_STEP_H_
