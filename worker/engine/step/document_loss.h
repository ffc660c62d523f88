// The head of a plan whose loss is a function of documents: log-probabilities, the loss of pairs or
// records, gradients with a weight for each row (kernels/loss/document_loss.h).
#ifndef COXSWAIN_WORKER_ENGINE_STEP_DOCUMENT_LOSS_H_
#define COXSWAIN_WORKER_ENGINE_STEP_DOCUMENT_LOSS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/commands/commands.h"
#include "worker/engine/ops/sweep.h"
#include "worker/engine/step/state.h"

namespace coxswain::engine {

// In: Buffers::final_norm of the policy, Buffers::documents.references where the plan has a
// reference. Adds the loss to scalars->loss_sum and the reports to scalars->preference. Training
// does the rest that LmHead does.
void DocumentHead(const plan::Plan& plan, const Sweep& sweep);

// Where the plan's reference is the model without adapters: its forward over the micro-step, whose
// sums become Buffers::documents.references. Else nothing. `first`: of the command.
void RunReference(State& state, const MicroBatch& batch, bool first, PhaseSeconds* seconds);

// The sums of log-probabilities of the documents of `bins`, and where the plan has a policy loss
// those of each target, of the model as it is or `without_adapters`. FailedPrecondition: the plan
// has no loss of documents or of a policy, or no adapters to leave out.
absl::StatusOr<LogProbStats> RunLogProbs(State& state, const BinBatch& bins, bool without_adapters);

PreferenceStats StatsOf(const plan::DocumentLoss& loss, const kernels::PreferenceSums& sums);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_STEP_DOCUMENT_LOSS_H_
