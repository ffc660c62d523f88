// Training steps without one of the things that make them fast, for ablations. The engine has none
// of these ways; a benchmark puts them in its place (without.cc, replaced_calls.cc).
#ifndef COXSWAIN_BENCH_WORKER_ENGINE_WITHOUT_H_
#define COXSWAIN_BENCH_WORKER_ENGINE_WITHOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/planner/planner.h"
#include "worker/engine/commands/commands.h"

namespace coxswain::bench {

struct Without {
  bool packing = false;       // a bin holds one document; the batch the same documents
  bool lengths = false;       // documents are as long as the longest of their kCollated
  bool chunks = false;        // the logits of all rows of a micro-step are there at once
  bool fusions = false;       // of the plan: ops one by one
  bool fused_update = false;  // AdamW launched for each tensor, after the host has decided on it
  bool tuning = false;        // products by the library's first choice
  bool graphs = false;        // each kernel launched by the host
  bool balance = false;       // the fullest expert of a layer gets four times the mean's tokens
};

// InvalidArgument for a word that is no field above.
absl::StatusOr<Without> ParseWithout(const std::vector<std::string>& words);

// Makes the process run what `without` says from now on: before Engine::Prepare of `plan`, and for
// one engine at a time. Without `packing`, `chunks` and `fusions`, which are of plan and step.
void ReplaceCalls(const Without& without, const plan::Plan& plan);

// How many times as large the weights of one of E experts are drawn, so that it is among the k of a
// token with the probability `share` instead of k / E. Scores of the others are normal(0, 1), and
// the k-th largest is taken for the quantile t of 1 - k / E: the factor f has P(normal(0, f) > t) =
// share. k / E < share < 1 / 2.
double WidthOfFullest(int64_t experts, int64_t chosen, double share);

// The plan without what is of it, and what follows: buffers, hash, memory. Predicted times stay.
absl::Status RemoveFromPlan(const Without& without, planner::PlannedJob* planned);

// The same documents, each in a bin of its own: more micro-steps.
void Unpack(engine::TrainStep* step);

// Documents that a trainer without packing puts into one tensor.
inline constexpr size_t kCollated = 16;

// The same documents and targets, each made as long as the longest of its kCollated by tokens that
// are no targets, as a padded batch has them: rows of that length lie in the bins of `plan` in
// their order, as many as fit. What a bin leaves at its end is less than a row.
void PadLengths(const plan::Plan& plan, engine::TrainStep* step);

}  // namespace coxswain::bench

#endif  // COXSWAIN_BENCH_WORKER_ENGINE_WITHOUT_H_
