// One case of the golden values that transformers and peft computed in float64.
// tests/fixtures/README.md says what each file holds.
#ifndef COXSWAIN_TESTS_WORKER_ENGINE_GOLDEN_CASE_H_
#define COXSWAIN_TESTS_WORKER_ENGINE_GOLDEN_CASE_H_

#include <map>
#include <string>
#include <vector>

#include "common/plan/plan.h"
#include "worker/engine/engine.h"

namespace coxswain::engine {

using Tensors = std::map<std::string, std::vector<float>>;

struct GoldenStep {
  double loss = 0, grad_norm = 0, learning_rate = 0;
};

struct GoldenCase {
  std::string name;
  plan::Plan plan;
  BinBatch bins;  // one bin with all documents
  int64_t targets = 0;
  double loss = 0, grad_norm = 0;
  std::vector<GoldenStep> trajectory;
  std::vector<float> logits;  // [T, V]
  Tensors gradients;
  Tensors initial, final;  // of trainable tensors
};

// Throws std::runtime_error naming the file that is missing or broken.
GoldenCase LoadGoldenCase(const std::string& name);

// Every tensor of a safetensors file as float32.
Tensors ReadTensors(const std::string& path);

// |a - b|_2 / |b|_2.
double RelativeError(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace coxswain::engine

#endif  // COXSWAIN_TESTS_WORKER_ENGINE_GOLDEN_CASE_H_
