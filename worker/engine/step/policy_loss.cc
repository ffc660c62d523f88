#include "worker/engine/step/policy_loss.h"

#include "worker/engine/heads/lm_head.h"

namespace coxswain::engine {
namespace {

void AddPolicyLoss(const plan::Plan& plan, const Sweep& sweep) {
  const Buffers& buffers = sweep.buffers;
  kernels::PolicyLoss({.spec = plan::SpecOf(plan.policy_loss),
                       .documents = sweep.batch.scored,
                       .rows = buffers.documents.rows,
                       .nll = buffers.head_nll,
                       .old_logps = buffers.policy.old_logps,
                       .advantages = buffers.policy.advantages,
                       .references = buffers.policy.references,
                       .parts = buffers.policy.parts,
                       .loss = &buffers.scalars->loss_sum,
                       .reports = &buffers.scalars->policy,
                       .weights = sweep.batch.train ? buffers.documents.weights : nullptr},
                      sweep.stream);
}

}  // namespace

void PolicyHead(const plan::Plan& plan, const Sweep& sweep) {
  HeadLogProbs(sweep, LossHeadOf(plan));
  AddPolicyLoss(plan, sweep);
  if (sweep.batch.train) WeightedHead(sweep, LossHeadOf(plan));
}

void ReceiveRows(State& state, int64_t rows, std::vector<float>* log_probs) {
  kernels::CopyMemory(state.received_rows.data(), state.buffers.head_nll,
                      rows * static_cast<int64_t>(sizeof(float)), state.stream);
  EventHandle copied;
  copied.Record(state.stream);
  copied.Wait();
  for (int64_t i = 0; i < rows; ++i) log_probs->push_back(-state.received_rows[i]);
}

std::vector<double> SumsOfDocuments(const BinBatch& bins, const std::vector<float>& log_probs) {
  std::vector<double> sums;
  size_t token = 0, target = 0;
  for (const int32_t length : bins.document_lengths) {
    double& sum = sums.emplace_back(0);
    for (int32_t t = 0; t < length; ++t, ++token) {
      if (bins.targets[token] != 0) sum += log_probs[target++];
    }
  }
  return sums;
}

PolicyStats StatsOf(const kernels::PolicySums& sums) {
  return {.clipped_low = sums.clipped_low,
          .clipped_high = sums.clipped_high,
          .clippable = sums.clippable,
          .kl = sums.kl,
          .ratio = sums.ratio,
          .rows = static_cast<int64_t>(sums.rows),
          .low_min = sums.rows > 0 ? 1 - sums.not_low_max : 0,
          .high_max = sums.high_max};
}

}  // namespace coxswain::engine
