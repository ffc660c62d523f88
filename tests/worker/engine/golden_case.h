// One case of the golden values that transformers and peft computed in float64.
// What each file of a case holds: common/model/ADD_A_FAMILY.md, "Golden files".
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

// Folder of case `name`: in $COXSWAIN_FIXTURES, else in ../shared/fixtures, else in tests/fixtures.
// Empty: nowhere.
std::string FindGoldenCase(const std::string& name);
bool FixturesDemanded();  // COXSWAIN_FIXTURES is set: a missing case is a failure

// Throws std::runtime_error naming the file.
GoldenCase LoadGoldenCase(const std::string& name, const std::string& directory);

// Every tensor of a safetensors file as float32.
Tensors ReadTensors(const std::string& path);

// |a - b|_2 / |b|_2.
double RelativeError(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace coxswain::engine

#endif  // COXSWAIN_TESTS_WORKER_ENGINE_GOLDEN_CASE_H_
