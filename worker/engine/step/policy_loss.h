// The head of a plan that has a policy loss: log-probabilities, the loss of tokens by their
// advantages, gradients with a weight for each row (kernels/loss/policy_loss.h).
#ifndef COXSWAIN_WORKER_ENGINE_STEP_POLICY_LOSS_H_
#define COXSWAIN_WORKER_ENGINE_STEP_POLICY_LOSS_H_

#include <cstdint>
#include <vector>

#include "worker/engine/commands/commands.h"
#include "worker/engine/ops/sweep.h"
#include "worker/engine/step/state.h"

namespace coxswain::engine {

// In: Buffers::final_norm and Buffers::policy. Adds the loss to scalars->loss_sum and the reports
// to scalars->policy. Training does the rest that LmHead does.
void PolicyHead(const plan::Plan& plan, const Sweep& sweep);

// Waits for the stream and appends the log-probabilities of the first `rows` rows with a target of
// the newest HeadLogProbs.
void ReceiveRows(State& state, int64_t rows, std::vector<float>* log_probs);

// Of the log-probabilities of all targets, in order: the sum of each document, nats.
std::vector<double> SumsOfDocuments(const BinBatch& bins, const std::vector<float>& log_probs);

PolicyStats StatsOf(const kernels::PolicySums& sums);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_STEP_POLICY_LOSS_H_
