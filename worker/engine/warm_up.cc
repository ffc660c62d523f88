#include "worker/engine/warm_up.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/attention/attention.h"
#include "kernels/products/gemm.h"
#include "worker/engine/generate/generate.h"
#include "worker/engine/memory/fp8_history.h"
#include "worker/engine/memory/parameter_store.h"
#include "worker/engine/memory/random_init.h"
#include "worker/engine/ops/block.h"
#include "worker/engine/step/document_loss.h"

namespace coxswain::engine {
namespace {

// Full micro-batches: `documents` equal documents per bin, every token but their last a target.
BinBatch Batch(const plan::Plan& plan, int64_t documents, int64_t micro_steps) {
  BinBatch bins;
  for (int64_t bin = 0; bin < micro_steps * plan.micro_batch_bins; ++bin) {
    bins.bin_ids.push_back(bin);
    bins.documents_per_bin.push_back(static_cast<int32_t>(documents));
    int64_t left = plan.sequence_len;
    for (int64_t i = 0; i < documents; ++i) {
      const int64_t length = left / (documents - i);
      left -= length;
      bins.document_lengths.push_back(static_cast<int32_t>(length));
      for (int64_t t = 0; t < length; ++t) {
        const auto mixed = static_cast<uint64_t>(bins.token_ids.size() + 1) * 0x9E3779B97F4A7C15u;
        bins.token_ids.push_back(
            static_cast<int32_t>((mixed >> 33) % static_cast<uint64_t>(plan.model.vocab_size)));
        bins.targets.push_back(t + 1 < length ? 1 : 0);
      }
    }
  }
  if (plan.document_loss.reference == "kept")
    bins.references.assign(bins.document_lengths.size(), 0);
  const auto values = static_cast<size_t>(plan.document_loss.values_per_document());
  bins.values.assign(values * bins.document_lengths.size(), 1);
  if (plan.policy_loss.any()) {
    const size_t targets = bins.token_ids.size() - bins.document_lengths.size();
    bins.advantages.assign(targets, 1);
    bins.old_log_probs.assign(targets, 0);
    if (plan.policy_loss.has_kl()) bins.reference_log_probs.assign(targets, 0);
  }
  return bins;
}

// The trained values stay: the rate is zero. The moments do not.
void RunStep(State& state, int64_t documents, int64_t micro_steps) {
  TrainStep step;
  step.bins = Batch(state.plan, documents, micro_steps);
  step.loss_denominator = static_cast<int64_t>(step.bins.token_ids.size());
  // A loss that is not finite is left for the first real step to report.
  (void)RunTrainStep(state, step);
}

// Of a loss of documents a bin holds whole pairs, so that it is never one document, or records.
void RunDocumentSteps(State& state) {
  const int64_t documents = std::min<int64_t>(2, state.plan.max_documents_per_bin);
  RunStep(state, documents, state.written_gradients.empty() ? 1 : 2);
  (void)RunEvaluation(state, Batch(state.plan, documents, 1));
}

// An evaluation, and the base, which is asked for the references of a policy loss.
void RunEvaluations(State& state, int64_t documents) {
  BinBatch bins = Batch(state.plan, documents, 1);
  (void)RunEvaluation(state, bins);
  if (state.reference == nullptr) return;
  bins.advantages.clear();
  bins.old_log_probs.clear();
  bins.reference_log_probs.clear();
  (void)RunLogProbs(state, bins, /*without_adapters=*/true);
}

void RunSteps(State& state) {
  if (state.plan.document_loss.any()) return RunDocumentSteps(state);
  // Products of the second micro-step add where those of the first write: other algorithms.
  RunStep(state, 1, state.written_gradients.empty() ? 1 : 2);
  RunEvaluations(state, 1);
  if (state.plan.max_documents_per_bin == 1 || state.plan.sequence_len == 1) return;
  RunStep(state, 2, 1);
  RunEvaluations(state, 2);
}

// As many texts as there can be, a token of each from its prompt and one from the cache.
void Answer(State& state) {
  GenerateChunk chunk;
  chunk.prompts.assign(static_cast<size_t>(state.plan.generation.sequences), {0});
  chunk.tokens = 2;
  (void)RunGenerate(state, chunk);
  state.generation->texts.clear();
}

// Other ranks' weights come when the ranks have met. The time of a product depends on its values,
// by the power that they draw: zeros in their place would choose other algorithms.
void FillAbsentWeights(const State& state) {
  const ParameterStore store(state.plan, state.layout, state.buffers);
  for (size_t i = 0; i < state.plan.parameters.size(); ++i) {
    store.FillAbsent(i, StandIn(state.plan.parameters[i], state.plan.model));
  }
}

}  // namespace

void WarmUp(State& state) {
  FillAbsentWeights(state);
  state.warming_up = true;
  kernels::SetGemmTuning(true);
  if (state.plan.trains()) RunSteps(state);
  if (state.plan.generates()) Answer(state);
  kernels::SetGemmTuning(false);
  state.gemm_table = kernels::TunedGemmTable();
  state.warming_up = false;
  for (size_t s = 0; state.plan.trains() && s < state.buffers.states.size(); ++s) {
    kernels::SetMemory(state.buffers.states[s], 0, state.layout.map.states[s], nullptr);
  }
  ClearFp8History(state.plan, state.buffers);
  state.applied_updates = 0;
  state.has_frozen_codes = false;  // they are of the stand-ins
  state.graphs.Enable();
}

}  // namespace coxswain::engine
