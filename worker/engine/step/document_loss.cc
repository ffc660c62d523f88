#include "worker/engine/step/document_loss.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/heads/lm_head.h"
#include "worker/engine/ops/block.h"
#include "worker/engine/ops/micro_step.h"
#include "worker/engine/step/plan_check.h"
#include "worker/engine/step/policy_loss.h"
#include "worker/engine/step/run_sweep.h"

namespace coxswain::engine {
namespace {

// Of the rows of the newest HeadLogProbs.
void SumInto(const Sweep& sweep, kernels::DocumentSums* sums) {
  kernels::SumDocuments({.documents = sweep.batch.scored,
                         .rows = sweep.buffers.documents.rows,
                         .nll = sweep.buffers.head_nll,
                         .sums = sums},
                        sweep.stream);
}

void AddDocumentLoss(const plan::Plan& plan, const Sweep& sweep) {
  const DocumentBuffers& documents = sweep.buffers.documents;
  Scalars* const scalars = sweep.buffers.scalars;
  kernels::DocumentLoss({.spec = plan::SpecOf(plan.document_loss),
                         .documents = sweep.batch.scored,
                         .rows = documents.rows,
                         .sums = documents.sums,
                         .references = documents.references,
                         .labels = documents.values,
                         .scalars = &scalars->documents,
                         .coefficients = documents.coefficients,
                         .loss = &scalars->loss_sum,
                         .reports = &scalars->preference,
                         .weights = sweep.batch.train ? documents.weights : nullptr},
                        sweep.stream);
}

struct Halves {
  const char *forward, *head;
};

// Forward and log-probabilities alone, of a sweep that does not train; `head` does the latter.
void RunLogProbSweep(State& state, const Sweep& sweep, const Halves& names, PhaseSeconds* seconds,
                     void (*head)(const State&, const Sweep&)) {
  RunForwardSweep(state, sweep, names.forward, seconds);
  RunSweep(state, sweep, {.name = names.head, .seconds = seconds, .phase = &seconds->forward},
           BackwardVisits(sweep.model, sweep.ops, /*train=*/false), head);
}

void RowsHead(const State& state, const Sweep& sweep) {
  sweep.units->Enter(UnitOf(state.plan.model.num_layers));
  if (!sweep.idle()) HeadLogProbs(sweep, LossHeadOf(state.plan));
}

void ReferenceHead(const State& state, const Sweep& sweep) {
  RowsHead(state, sweep);
  if (!sweep.idle()) SumInto(sweep, sweep.buffers.documents.references);
}

void SumsHead(const State& state, const Sweep& sweep) {
  RowsHead(state, sweep);
  if (!sweep.idle()) SumInto(sweep, sweep.buffers.documents.sums);
}

absl::Status CheckLogProbs(const State& state, const BinBatch& bins, bool without_adapters) {
  if (!state.plan.weighs_rows()) {
    return absl::FailedPreconditionError(
        "log_probs: the plan's loss is neither of log-probabilities of documents nor of a policy");
  }
  if (without_adapters && state.reference == nullptr) {
    return absl::FailedPreconditionError(
        "log_probs without adapters: the plan's reference is not the base");
  }
  RETURN_IF_ERROR(CheckGroup(state, "log_probs"));
  return CheckBins(state.plan, bins, /*scored=*/false);
}

// The sums of the micro-step's documents, in their order; padding has none.
void Receive(State& state, int64_t documents, std::vector<double>* sums) {
  kernels::CopyMemory(state.received_sums.data(), state.buffers.documents.sums,
                      documents * static_cast<int64_t>(sizeof(kernels::DocumentSums)),
                      state.stream);
  EventHandle copied;
  copied.Record(state.stream);
  copied.Wait();
  for (int64_t i = 0; i < documents; ++i) sums->push_back(state.received_sums[i].scored);
}

PreferenceStats::Of ReportsOf(const plan::DocumentLoss& loss) {
  if (!loss.of_scores()) return PreferenceStats::Of::kLogProbs;
  switch (plan::ScoreSpecOf(loss).type) {
    case kernels::ScoreTerm::kBradleyTerry:
      return PreferenceStats::Of::kPairScores;
    case kernels::ScoreTerm::kRegression:
      return PreferenceStats::Of::kNumbers;
    default:
      return PreferenceStats::Of::kLabels;
  }
}

}  // namespace

void DocumentHead(const plan::Plan& plan, const Sweep& sweep) {
  HeadLogProbs(sweep, LossHeadOf(plan));
  SumInto(sweep, sweep.buffers.documents.sums);
  AddDocumentLoss(plan, sweep);
  if (sweep.batch.train) WeightedHead(sweep, LossHeadOf(plan));
}

void RunReference(State& state, const MicroBatch& batch, bool first, PhaseSeconds* seconds) {
  if (state.plan.document_loss.reference != "base") return;
  MicroBatch scored = batch;
  scored.train = false;
  const Sweep sweep{state.reference->model, state.buffers, state.reference->ops, scored,
                    state.stream,           first};
  RunLogProbSweep(state, sweep, {"reference forward", "reference head"}, seconds, ReferenceHead);
}

absl::StatusOr<LogProbStats> RunLogProbs(State& state, const BinBatch& bins,
                                         bool without_adapters) {
  RETURN_IF_ERROR(CheckLogProbs(state, bins, without_adapters));
  const bool of_targets = state.plan.policy_loss.any();
  LogProbStats stats;
  state.waits.clear();
  state.timeline.Begin(state.stream);
  BinCursor cursor;
  const int64_t rounds = RoundsOf(state, bins);
  for (int64_t round = 0; round < rounds && state.exchange.status().ok(); ++round) {
    MicroBatch batch;
    const BinCursor first = cursor;
    if (cursor.bin < bins.bin_ids.size()) {
      batch = state.stager.StageNext(bins, state.buffers, state.stream, &cursor);
    }
    const Model& model = without_adapters ? state.reference->model : state.model;
    const BoundModel& ops = without_adapters ? state.reference->ops : state.ops;
    const Sweep sweep{model, state.buffers, ops, batch, state.stream, round == 0};
    RunLogProbSweep(state, sweep,
                    without_adapters ? Halves{"reference forward", "documents of the base"}
                                     : Halves{"documents forward", "documents"},
                    &stats.seconds, of_targets ? RowsHead : SumsHead);
    if (of_targets) {
      ReceiveRows(state, static_cast<int64_t>(cursor.target - first.target), &stats.of_targets);
    } else {
      Receive(state, static_cast<int64_t>(cursor.document - first.document), &stats.sums);
    }
  }
  if (of_targets) stats.sums = SumsOfDocuments(bins, stats.of_targets);
  state.timeline.Mark(&stats.seconds.forward, state.stream);
  RETURN_IF_ERROR(FinishPhases(state, &stats.seconds));
  return stats;
}

PreferenceStats StatsOf(const plan::DocumentLoss& loss, const kernels::PreferenceSums& sums) {
  return {.of = ReportsOf(loss),
          .rewards_chosen = sums.rewards_chosen,
          .rewards_rejected = sums.rewards_rejected,
          .accuracies = sums.accuracies,
          .logps_chosen = sums.logps_chosen,
          .logps_rejected = sums.logps_rejected,
          .chosen = static_cast<int64_t>(sums.chosen),
          .rejected = static_cast<int64_t>(sums.rejected),
          .pairs = loss.documents_per_unit() == 2};
}

}  // namespace coxswain::engine
