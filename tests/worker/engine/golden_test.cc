// Whole model, adapters and optimizer against golden values. Invariant engine-1.
// Limits: a float32 run in libtorch reaches a tenth of each (tests/fixtures/README.md).
#include <gtest/gtest.h>
#include <filesystem>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "common/files/hash.h"
#include "kernels/products/gemm.h"
#include "tests/support/golden_folder.h"
#include "tests/support/scratch_folder.h"
#include "tests/worker/engine/support/golden_case.h"
#include "tests/worker/engine/support/test_model.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/engine.h"
#include "worker/engine/heads/lm_head.h"
#include "worker/engine/make_state.h"
#include "worker/engine/step/step.h"

namespace coxswain::engine {
namespace golden_test {
namespace {

constexpr double kLogitsLimit = 1e-5, kLossLimit = 1e-6, kGradientLimit = 2e-5;
constexpr double kStepLossLimit = 1e-5, kStepNormLimit = 5e-5;
constexpr double kWeightLimit = 5e-4, kKeyBiasLimit = 5e-3;

class GoldenTest : public testing::TestWithParam<const char*> {
 protected:
  TrainStep Step(int64_t step) const {
    TrainStep train;
    train.step = step;
    train.bins = golden_.bins;
    train.loss_denominator = golden_.targets;
    train.learning_rate = golden_.trajectory[static_cast<size_t>(step)].learning_rate;
    return train;
  }

  void SetUp() override {
    const NamedCase named = CaseOf(GetParam());
    const std::string folder = support::GoldenFolder(named.name);
    if (!std::filesystem::exists(folder)) GTEST_SKIP() << "needs " << folder;
    golden_ = LoadGoldenCase(named.name);
    if (named.cut_head) CutHead(&golden_.plan);
  }

  GoldenCase golden_;
};

// Largest error over named tensors.
struct Worst {
  double error = 0;
  std::string name;
  int tensors = 0;

  void Add(const std::string& tensor, double value) {
    ++tensors;
    if (value >= error || std::isnan(value)) {
      error = value;
      name = tensor;
    }
  }
};

// Logits of every token, from the final norm that the last forward left behind. One bin: its tokens
// are the first rows.
std::vector<float> Logits(const State& state, int64_t tokens) {
  const int64_t vocab = state.plan.model.vocab_size, hidden = state.plan.model.hidden_size;
  void* logits = kernels::AllocateMemory(tokens * vocab * 4);
  const Adapters& adapters = state.model.adapted_head.adapters;
  void* h = kernels::AllocateMemory(tokens * std::max<int64_t>(1, state.model.lora_rank) * 4);
  if (!adapters.members.empty()) {
    kernels::LoraLinearForwardArgs lora;
    lora.spec = HeadLoraSpec(state.model, /*train=*/false);
    lora.spec.ldy = vocab;
    lora.rows = tokens;
    lora.x = state.buffers.final_norm;
    lora.weight = state.model.head.value;
    lora.a = adapters.a.value;
    lora.h = h;
    lora.y = logits;
    lora.workspace = state.buffers.scratch;
    kernels::LoraLinearForward(lora, state.stream);
  } else {
    kernels::GemmArgs gemm;
    gemm.spec.dtype = state.model.compute_dtype;
    gemm.spec.transpose_b = true;
    gemm.m = tokens;
    gemm.n = vocab;
    gemm.k = hidden;
    gemm.alpha = static_cast<float>(state.plan.model.logit_scale);
    gemm.a = state.buffers.final_norm;
    gemm.lda = hidden;
    gemm.b = state.model.head.value;
    gemm.ldb = hidden;
    gemm.c = logits;
    gemm.ldc = vocab;
    gemm.workspace = state.buffers.scratch;
    kernels::Gemm(gemm, state.stream);
  }
  kernels::Synchronize(state.stream);
  std::vector<float> values = ReadFloats(logits, kernels::DType::kFloat32, tokens * vocab);
  kernels::FreeMemory(logits);
  kernels::FreeMemory(h);
  const auto cap = static_cast<float>(state.plan.model.logit_softcap);
  for (float& value : values) value = cap > 0 ? cap * std::tanh(value / cap) : value;
  return values;
}

TEST_P(GoldenTest, LogitsLossAndGradients) {
  std::string doing;
  absl::StatusOr<std::unique_ptr<State>> state = MakeState(golden_.plan, 0, "", &doing);
  ASSERT_TRUE(state.ok()) << state.status();
  const double loss = GradientStep(**state, Step(0)) / static_cast<double>(golden_.targets);
  EXPECT_LE(std::abs(loss - golden_.loss), kLossLimit * golden_.loss);
  const double logits_error =
      golden_.logits.empty()
          ? 0
          : RelativeError(Logits(**state, static_cast<int64_t>(golden_.bins.token_ids.size())),
                          golden_.logits);
  EXPECT_LE(logits_error, kLogitsLimit);

  Worst worst;
  const State& s = **state;
  for (size_t i = 0; i < s.plan.parameters.size(); ++i) {
    const model::Parameter& parameter = s.plan.parameters[i];
    if (!parameter.trainable()) continue;
    ASSERT_EQ(golden_.gradients.count(parameter.name), 1u) << parameter.name;
    const double error = RelativeError(GradientOf(s, i), golden_.gradients.at(parameter.name));
    EXPECT_LE(error, kGradientLimit) << parameter.name;
    worst.Add(parameter.name, error);
  }
  EXPECT_EQ(static_cast<size_t>(worst.tensors), golden_.gradients.size());
  std::printf("%s: loss %.2e relative, logits %.2e, %d gradients, worst %.2e (%s)\n",
              golden_.name.c_str(), std::abs(loss / golden_.loss - 1), logits_error, worst.tensors,
              worst.error, worst.name.c_str());
}

// Against the logits of the forward before, once some targets are learned.
TEST_P(GoldenTest, EvaluationCountsTheTargetsRankedFirst) {
  std::string doing;
  absl::StatusOr<std::unique_ptr<State>> state = MakeState(golden_.plan, 0, "", &doing);
  ASSERT_TRUE(state.ok()) << state.status();
  for (int64_t i = 0; i < 40; ++i) {
    TrainStep step = Step(0);
    step.step = i;
    step.learning_rate = 5e-3;
    ASSERT_TRUE(RunTrainStep(**state, step).ok());
  }
  const absl::StatusOr<EvalStats> stats = RunEvaluation(**state, golden_.bins);
  ASSERT_TRUE(stats.ok()) << stats.status();
  const auto tokens = static_cast<int64_t>(golden_.bins.token_ids.size());
  const std::vector<float> logits = Logits(**state, tokens);
  const int64_t vocab = golden_.plan.model.vocab_size;
  int64_t expected = 0;
  for (int64_t t = 0; t + 1 < tokens; ++t) {
    const auto row = logits.begin() + t * vocab;
    const auto first = std::max_element(row, row + vocab) - row;
    const auto at = static_cast<size_t>(t);
    expected += golden_.bins.targets[at] != 0 && first == golden_.bins.token_ids[at + 1];
  }
  EXPECT_EQ(stats->correct_targets, expected);
  EXPECT_GT(expected, golden_.targets / 20);
}

TEST_P(GoldenTest, TwentyStepsAndFinalWeights) {
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Prepare(golden_.plan, 0, "");
  ASSERT_TRUE(engine.ok()) << engine.status();
  double worst_loss = 0, worst_norm = 0;
  std::string bits;  // of loss and norm of every step
  for (size_t i = 0; i < golden_.steps_before_flip; ++i) {
    const GoldenStep& expected = golden_.trajectory[i];
    const absl::StatusOr<StepStats> stats = (*engine)->Train(Step(static_cast<int64_t>(i)));
    ASSERT_TRUE(stats.ok()) << stats.status();
    const double loss = stats->global_loss_sum / static_cast<double>(golden_.targets);
    EXPECT_LE(std::abs(loss - expected.loss), kStepLossLimit) << "step " << i;
    EXPECT_LE(std::abs(stats->grad_norm / expected.grad_norm - 1), kStepNormLimit) << "step " << i;
    bits.append(reinterpret_cast<const char*>(&stats->global_loss_sum), sizeof(double));
    bits.append(reinterpret_cast<const char*>(&stats->grad_norm), sizeof(double));
    worst_loss = std::max(worst_loss, std::abs(loss - expected.loss));
    worst_norm = std::max(worst_norm, std::abs(stats->grad_norm / expected.grad_norm - 1));
  }
  if (golden_.flips) return;
  ASSERT_EQ(golden_.trajectory.size(), 20u);

  const support::ScratchFolder folder;
  const std::string& directory = folder.path();
  ASSERT_TRUE((*engine)->Snapshot(20).ok());
  ASSERT_TRUE((*engine)->SaveShard(directory, 20).ok());
  const Tensors trained = ReadTensors(directory + "/rank-0.safetensors");
  Worst worst;
  for (const auto& [name, expected] : golden_.final) {
    ASSERT_EQ(trained.count(name), 1u) << name;
    const double error = ErrorOfTheWay(trained.at(name), expected, golden_.initial.at(name));
    const bool key_bias = name.find("k_proj.bias") != std::string::npos;
    EXPECT_LE(error, key_bias ? kKeyBiasLimit : kWeightLimit) << name;
    worst.Add(name, key_bias ? error * kWeightLimit / kKeyBiasLimit : error);
  }
  if (!golden_.final.empty()) {
    EXPECT_EQ(trained.size(), 3 * golden_.final.size());
  }
  std::printf(
      "%s: 20 steps, worst loss difference %.2e, norm %.2e; %d final tensors, worst %.2e of "
      "the distance (%s); SHA-256 of the bits of losses and norms %.16s\n",
      golden_.name.c_str(), worst_loss, worst_norm, worst.tensors, worst.error, worst.name.c_str(),
      ToHex(Sha256(bits)).c_str());
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenTest, testing::ValuesIn(kGoldenCases),
                         [](const auto& info) { return std::string(info.param); });
INSTANTIATE_TEST_SUITE_P(Experts, GoldenTest, testing::ValuesIn(kExpertCases),
                         [](const auto& info) {
                           return std::string(info.param).substr(std::string("moe/").size());
                         });
// Tied and untied heads, logit scales, softcap, frozen heads and saved ones.
INSTANTIATE_TEST_SUITE_P(CutHeads, GoldenTest,
                         testing::Values("cut_qwen2_full", "cut_llama_full", "cut_granite_full",
                                         "cut_gemma2_full", "cut_cohere_full", "cut_qwen2_lora",
                                         "cut_llama_saved_lora", "cut_qwen2_saved_lora"),
                         [](const auto& info) { return std::string(info.param); });
INSTANTIATE_TEST_SUITE_P(Quantized, GoldenTest, testing::Values("llama_qlora"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace golden_test
}  // namespace coxswain::engine
