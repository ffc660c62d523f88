// Policy losses against what TRL's GRPOTrainer computed in float64: log-probabilities, losses,
// gradients, reports, twenty steps and final weights. tests/fixtures/README.md says what each file
// holds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "common/files/safetensors/safetensors.h"
#include "nlohmann/json.hpp"
#include "tests/support/golden_folder.h"
#include "tests/worker/engine/support/golden_case.h"
#include "tests/worker/engine/support/golden_documents.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/engine.h"
#include "worker/engine/make_state.h"

namespace coxswain::engine {
namespace policy_golden_test {
namespace {

using Json = nlohmann::json;

constexpr double kLossLimit = 1e-6, kReportLimit = 1e-5;
constexpr double kStepLossLimit = 1e-5, kStepNormLimit = 5e-5;

constexpr const char* kPolicyCases[] = {
    "qwen2_grpo_full",  "qwen2_grpo_lora",  "qwen2_ppo_full",     "qwen2_ppo_lora",
    "qwen2_cispo_full", "qwen2_cispo_lora", "qwen2_is_full",      "qwen2_is_lora",
    "qwen2_gspo_lora",  "qwen2_dapo_lora",  "qwen2_dr_grpo_lora", "qwen2_ppo_delta_lora"};

// The loss that a case's expected.json asks for. A bound of 1e9 is none.
plan::PolicyLoss LossOf(const Json& spec) {
  plan::PolicyLoss loss;
  const std::string type = spec.at("loss_type");
  const double low = spec.at("epsilon_low"), high = spec.at("epsilon_high");
  loss.objective = type == "cispo" ? type : high < 1e9 ? "clip" : "importance";
  if (loss.objective == "clip") loss.epsilon_low = low;
  if (loss.objective != "importance") loss.epsilon_high = high;
  loss.delta = spec.value("delta", 0.0);
  loss.kl_weight = spec.at("beta");
  loss.ratio = spec.value("importance_sampling_level", "token");
  loss.normaliser = type == "grpo" ? "sequences" : type == "dr_grpo" ? "constant" : "tokens";
  return loss;
}

class PolicyGoldenTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const NamedCase named = CaseOf(GetParam());
    const std::string name = "preference/" + named.name;
    cut_head_ = named.cut_head;
    const std::string folder = support::GoldenFolder(name);
    if (!std::filesystem::exists(folder)) GTEST_SKIP() << "needs " << folder;
    golden_ = LoadGoldenCase(name);
    expected_ = Json::parse(std::ifstream(folder + "/expected.json"));
    loss_ = LossOf(expected_.at("spec"));
    golden_.plan.policy_loss = loss_;
    FinishPlan();
    outputs_ = ReadTensors(folder + "/outputs.safetensors");
    const auto file = std::move(SafetensorsFile::Open(folder + "/batch.safetensors").value());
    bins_ = golden_.bins;
    bins_.advantages = OfTargets(Elements<float>(*file, "advantages"));
    bins_.old_log_probs = OfTargets(Elements<float>(*file, "old_logps"));
    if (loss_.has_kl()) bins_.reference_log_probs = OfTargets(outputs_.at("reference"));
  }

  std::vector<float> OfTargets(const std::vector<float>& of_tokens) const {
    std::vector<float> values;
    for (size_t t = 0; t < of_tokens.size(); ++t) {
      if (golden_.bins.targets[t] != 0) values.push_back(of_tokens[t]);
    }
    return values;
  }

  int64_t Denominator() const {
    const auto documents = static_cast<int64_t>(bins_.document_lengths.size());
    if (loss_.normaliser == "tokens") return golden_.targets;
    if (loss_.normaliser == "sequences") return documents;
    return documents * expected_.at("spec").at("max_completion_length").get<int64_t>();
  }

  double LossOfSum(double sum) const { return sum / static_cast<double>(Denominator()); }

  TrainStep Step(int64_t step) const {
    TrainStep train;
    train.step = step;
    train.bins = bins_;
    train.loss_denominator = Denominator();
    train.learning_rate = golden_.trajectory[static_cast<size_t>(step)].learning_rate;
    return train;
  }

  void CheckReport(const PolicyStats& got, const Json& want) const {
    const auto compare = [&](const char* name, double value) {
      if (want.contains(name)) {
        EXPECT_NEAR(value, want.at(name).get<double>(), kReportLimit) << name;
      }
    };
    const auto rows = static_cast<double>(got.rows);
    EXPECT_EQ(got.rows, golden_.targets);
    compare("clip_ratio/low_mean", got.clipped_low / got.clippable);
    compare("clip_ratio/high_mean", got.clipped_high / got.clippable);
    compare("clip_ratio/region_mean", (got.clipped_low + got.clipped_high) / got.clippable);
    compare("clip_ratio/low_min", got.low_min);
    compare("clip_ratio/high_max", got.high_max);
    compare("cispo_clip_ratio", got.clipped_high / got.clippable);
    compare("kl", got.kl / rows);
  }

  GoldenCase golden_;
  Json expected_;
  void FinishPlan() {
    Finish(&golden_.plan);
    if (cut_head_) CutHead(&golden_.plan);
  }

  bool cut_head_ = false;
  plan::PolicyLoss loss_;
  Tensors outputs_;
  BinBatch bins_;
};

void ExpectNear(const std::vector<float>& got, const std::vector<float>& want, const char* name) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], kLossLimit * (1 + std::abs(want[i]))) << name << " " << i;
  }
}

TEST_P(PolicyGoldenTest, LogProbabilitiesOfTargetsAndTheirSums) {
  golden_.plan.micro_batch_bins = 2;
  FinishPlan();
  const absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Prepare(golden_.plan, 0, "");
  ASSERT_TRUE(engine.ok()) << engine.status();
  const auto stats = (*engine)->LogProbs(OneByOne(golden_.bins), false);
  ASSERT_TRUE(stats.ok()) << stats.status();
  ExpectNear(stats->of_targets, OfTargets(outputs_.at("policy")), "policy");
  ExpectNear({stats->sums.begin(), stats->sums.end()}, outputs_.at("policy_sum"), "policy_sum");
  if (!loss_.has_kl() || golden_.plan.lora.rank == 0) return;
  const auto base = (*engine)->LogProbs(golden_.bins, true);
  ASSERT_TRUE(base.ok()) << base.status();
  ExpectNear(base->of_targets, bins_.reference_log_probs, "reference");
}

TEST_P(PolicyGoldenTest, LossGradientsAndReports) {
  const absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Prepare(golden_.plan, 0, "");
  ASSERT_TRUE(engine.ok()) << engine.status();
  const auto evaluated = (*engine)->Evaluate(bins_, {});
  ASSERT_TRUE(evaluated.ok()) << evaluated.status();
  CheckReport(evaluated->policy, expected_.at("metrics"));
  std::string doing;
  const auto state = MakeState(golden_.plan, 0, "", &doing);
  ASSERT_TRUE(state.ok()) << state.status();
  const double loss = LossOfSum(GradientStep(**state, Step(0)));
  EXPECT_NEAR(loss, golden_.loss, kLossLimit * std::max(1.0, std::abs(golden_.loss)));
  EXPECT_NEAR(LossOfSum(evaluated->loss_sum), loss, kLossLimit);
  std::printf("%s: loss off by %.2e, gradients by %.2e\n", golden_.name.c_str(),
              std::abs(loss - golden_.loss), CheckGradients(golden_, **state));
}

// One document a micro-step: denominators are those of the whole batch.
TEST_P(PolicyGoldenTest, TheCutIntoMicroStepsChangesRoundingAlone) {
  TrainStep cut = Step(0);
  cut.bins = OneByOne(bins_);
  std::string doing;
  const auto whole = MakeState(golden_.plan, 0, "", &doing),
             parts = MakeState(golden_.plan, 0, "", &doing);
  ASSERT_TRUE(whole.ok() && parts.ok());
  const double loss = GradientStep(**whole, Step(0)), sum = GradientStep(**parts, cut);
  EXPECT_NEAR(sum, loss, kLossLimit * std::max(1.0, std::abs(loss)));
  CheckSameGradients(**parts, **whole);
}

TEST_P(PolicyGoldenTest, TwentyStepsAndFinalWeights) {
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Prepare(golden_.plan, 0, "");
  ASSERT_TRUE(engine.ok()) << engine.status();
  ASSERT_EQ(golden_.trajectory.size(), 20u);
  for (size_t i = 0; i < golden_.trajectory.size(); ++i) {
    const GoldenStep& expected = golden_.trajectory[i];
    const auto stats = (*engine)->Train(Step(static_cast<int64_t>(i)));
    ASSERT_TRUE(stats.ok()) << stats.status();
    EXPECT_NEAR(LossOfSum(stats->global_loss_sum), expected.loss,
                kStepLossLimit * std::max(1.0, std::abs(expected.loss)))
        << "step " << i;
    EXPECT_NEAR(stats->grad_norm, expected.grad_norm,
                kStepNormLimit * std::max(expected.grad_norm, 1e-2))
        << "step " << i;
    CheckReport(stats->policy, expected_.at("trajectory")[i].at("metrics"));
  }
  CheckFinalWeights(golden_, engine->get());
}

INSTANTIATE_TEST_SUITE_P(CutHeads, PolicyGoldenTest,
                         testing::Values("cut_qwen2_grpo_full", "cut_qwen2_ppo_lora"),
                         [](const auto& info) { return std::string(info.param); });
INSTANTIATE_TEST_SUITE_P(Cases, PolicyGoldenTest, testing::ValuesIn(kPolicyCases),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace policy_golden_test
}  // namespace coxswain::engine
