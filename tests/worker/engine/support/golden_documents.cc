#include "tests/worker/engine/support/golden_documents.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/scratch_folder.h"
#include "tests/worker/engine/support/test_state.h"

namespace coxswain::engine {
namespace {

// The true gradient of a key bias is near 0: float32 alone, in torch, is off by 5e-3.
constexpr double kWeightLimit = 5e-4, kKeyBiasLimit = 2e-2;
constexpr double kGradientLimit = 2e-5;

bool IsKeyBias(const std::string& name) { return name.find("k_proj.bias") != std::string::npos; }

}  // namespace

BinBatch Sequences(const SafetensorsFile& file, const std::string& prefix) {
  const auto ids = Elements<int64_t>(file, prefix + "input_ids");
  const auto ends = Elements<int32_t>(file, prefix + "cu_seqlens");
  BinBatch bins;
  bins.bin_ids = {0};
  bins.documents_per_bin = {static_cast<int32_t>(ends.size()) - 1};
  bins.targets.assign(ids.size(), 1);
  for (size_t i = 1; i < ends.size(); ++i) {
    bins.document_lengths.push_back(ends[i] - ends[i - 1]);
    bins.targets[static_cast<size_t>(ends[i]) - 1] = 0;
  }
  for (const int64_t id : ids) bins.token_ids.push_back(static_cast<int32_t>(id));
  if (file.Find(prefix + "labels") == nullptr) return bins;
  const auto labels = Elements<int64_t>(file, prefix + "labels");
  for (size_t t = 0; t < ids.size(); ++t) bins.targets[t] = labels[t] == -100 ? 0 : 1;
  return bins;
}

BinBatch Picked(const BinBatch& from, const std::vector<size_t>& order, size_t per_bin) {
  std::vector<int32_t> begins = {0};
  for (const int32_t length : from.document_lengths) begins.push_back(begins.back() + length);
  const size_t values = from.values.size() / from.document_lengths.size();
  BinBatch bins;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i % per_bin == 0) {
      bins.bin_ids.push_back(static_cast<int64_t>(i / per_bin));
      bins.documents_per_bin.push_back(0);
    }
    ++bins.documents_per_bin.back();
    const int32_t begin = begins[order[i]], end = begins[order[i] + 1];
    bins.document_lengths.push_back(end - begin);
    bins.token_ids.insert(bins.token_ids.end(), from.token_ids.begin() + begin,
                          from.token_ids.begin() + end);
    bins.targets.insert(bins.targets.end(), from.targets.begin() + begin,
                        from.targets.begin() + end);
    if (!from.references.empty()) bins.references.push_back(from.references[order[i]]);
    for (size_t v = 0; v < values; ++v) bins.values.push_back(from.values[values * order[i] + v]);
  }
  return bins;
}

std::vector<size_t> PairedOrder(size_t documents) {
  std::vector<size_t> order;
  for (size_t i = 0; i < documents; ++i) order.push_back(i / 2 + i % 2 * (documents / 2));
  return order;
}

double CheckGradients(const GoldenCase& golden, const State& state) {
  double worst = 0;
  for (size_t i = 0; i < state.plan.parameters.size(); ++i) {
    const model::Parameter& parameter = state.plan.parameters[i];
    if (!parameter.trainable()) continue;
    const auto want = golden.gradients.find(parameter.name);
    EXPECT_NE(want, golden.gradients.end()) << parameter.name;
    if (want == golden.gradients.end()) continue;
    const double error = RelativeError(GradientOf(state, i), want->second);
    const double limit = IsKeyBias(parameter.name) ? 10 * kGradientLimit : kGradientLimit;
    EXPECT_LE(error, limit) << parameter.name;
    worst = std::max(worst, error * kGradientLimit / limit);
  }
  return worst;
}

void CheckSameGradients(const State& got, const State& want) {
  for (size_t i = 0; i < want.plan.parameters.size(); ++i) {
    const model::Parameter& parameter = want.plan.parameters[i];
    if (!parameter.trainable() || IsKeyBias(parameter.name)) continue;
    EXPECT_LE(RelativeError(GradientOf(got, i), GradientOf(want, i)), kGradientLimit)
        << parameter.name;
  }
}

void CheckFinalWeights(const GoldenCase& golden, Engine* engine) {
  const support::ScratchFolder folder;
  ASSERT_TRUE(engine->Snapshot(20).ok());
  ASSERT_TRUE(engine->SaveShard(folder.path(), 20).ok());
  const Tensors trained = ReadTensors(folder.path() + "/rank-0.safetensors");
  for (const auto& [name, expected] : golden.final) {
    ASSERT_EQ(trained.count(name), 1u) << name;
    EXPECT_LE(ErrorOfTheWay(trained.at(name), expected, golden.initial.at(name)),
              IsKeyBias(name) ? kKeyBiasLimit : kWeightLimit)
        << name;
  }
}

}  // namespace coxswain::engine
