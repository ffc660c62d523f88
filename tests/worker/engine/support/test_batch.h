// Batches of random documents.
#ifndef COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_TEST_BATCH_H_
#define COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_TEST_BATCH_H_

#include <cstdint>
#include <vector>

#include "worker/engine/engine.h"

namespace coxswain::engine {

// Bins by the lengths of their documents; ids in [0, vocab) and targets (about two thirds of the
// tokens that may have one) are drawn from `seed`.
BinBatch RandomBins(const std::vector<std::vector<int32_t>>& lengths, int64_t vocab, uint64_t seed);

// Bins [first, first + count) of `bins`.
BinBatch Slice(const BinBatch& bins, size_t first, size_t count);

// The same documents, each in a bin of its own.
BinBatch OneByOne(const BinBatch& bins);

int64_t Targets(const BinBatch& bins);

TrainStep MakeStep(int64_t step, const BinBatch& bins, double learning_rate = 1e-3);

}  // namespace coxswain::engine

#endif  // COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_TEST_BATCH_H_
