// Goldens whose loss is of documents: their batches, and what twenty steps leave.
#ifndef COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_GOLDEN_DOCUMENTS_H_
#define COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_GOLDEN_DOCUMENTS_H_

#include <cstring>
#include <string>
#include <vector>

#include "common/files/safetensors/safetensors.h"
#include "tests/worker/engine/support/golden_case.h"
#include "worker/engine/engine.h"
#include "worker/engine/step/state.h"

namespace coxswain::engine {

// Elements of a tensor whose dtype is T.
template <typename T>
std::vector<T> Elements(const SafetensorsFile& file, const std::string& name) {
  const TensorInfo* tensor = file.Find(name);
  std::vector<T> values(static_cast<size_t>(tensor->elements()));
  std::memcpy(values.data(), tensor->data, values.size() * sizeof(T));
  return values;
}

// The sequences of a file as one bin. Without labels every token but the last has a target.
BinBatch Sequences(const SafetensorsFile& file, const std::string& prefix);

// The documents of `order` of a bin, `per_bin` to a bin.
BinBatch Picked(const BinBatch& from, const std::vector<size_t>& order, size_t per_bin);

// Pairs side by side, where a file has all chosen sequences before all rejected ones.
std::vector<size_t> PairedOrder(size_t documents);

// Holds the gradients of `state` against those of the case, and returns the largest error.
double CheckGradients(const GoldenCase& golden, const State& state);

// Of two states of one plan; but for key biases, whose true gradient is near 0.
void CheckSameGradients(const State& got, const State& want);

// Holds the weights after step 20 against those of the case, to the distance travelled.
void CheckFinalWeights(const GoldenCase& golden, Engine* engine);

}  // namespace coxswain::engine

#endif  // COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_GOLDEN_DOCUMENTS_H_
