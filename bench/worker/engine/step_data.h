// What step_bench trains on: random tokens in documents of given lengths, every target valid.
#ifndef COXSWAIN_BENCH_WORKER_ENGINE_STEP_DATA_H_
#define COXSWAIN_BENCH_WORKER_ENGINE_STEP_DATA_H_

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "bench/worker/engine/step_rows.h"
#include "controller/data/prepare/prepare.h"
#include "controller/planner/recipe/recipe.h"
#include "worker/engine/engine.h"

namespace coxswain::bench {

// As many documents as fill the bins of a few steps, written to a token store in `directory`.
// Lengths are as row.documents says; ids are uniform in [0, vocab). `of_unit`: documents of a pair,
// or 1; a bin then takes so many times sequence_len.
absl::StatusOr<data::PreparedData> RandomDocuments(const Row& row, int64_t vocab,
                                                   const std::string& directory,
                                                   int64_t of_unit = 1);

// Adds a bin of these documents of `store`.
void AddBin(int64_t id, std::span<const int64_t> documents, const data::TokenStore& store,
            engine::BinBatch* bins);

// A step's whole batch, as the controller would send it to a single rank. `loss`: of the plan. Kept
// references are what a model with random weights says of a document, ln V for each target.
engine::TrainStep MakeStep(const planner::Recipe& recipe, const data::TokenStore& store,
                           int64_t step, const plan::DocumentLoss& loss = {}, int64_t vocab = 0);

}  // namespace coxswain::bench

#endif  // COXSWAIN_BENCH_WORKER_ENGINE_STEP_DATA_H_
