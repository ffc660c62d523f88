// Losses of documents against what TRL's own loss code computed in float64: losses, gradients,
// reports, twenty steps and final weights. tests/fixtures/README.md says what each file holds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>

#include "common/files/safetensors/safetensors.h"
#include "nlohmann/json.hpp"
#include "tests/support/golden_folder.h"
#include "tests/worker/engine/support/golden_case.h"
#include "tests/worker/engine/support/golden_documents.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/engine.h"
#include "worker/engine/make_state.h"

namespace coxswain::engine {
namespace preference_golden_test {
namespace {

using Json = nlohmann::json;

constexpr double kLossLimit = 1e-6, kReportLimit = 1e-5;
constexpr double kStepLossLimit = 1e-5, kStepNormLimit = 5e-5;

constexpr const char* kPreferenceCases[] = {
    "qwen2_dpo_lora",          "qwen2_dpo_full",        "qwen2_dpo_ref_full",
    "llama_dpo_lora",          "qwen2_dpo_norm_lora",   "qwen2_dpo_sft_lora",
    "qwen2_dpo_smooth_lora",   "qwen2_dpo_smooth_full", "qwen2_ipo_lora",
    "qwen2_ipo_full",          "qwen2_hinge_lora",      "qwen2_hinge_full",
    "qwen2_robust_lora",       "qwen2_apo_zero_lora",   "qwen2_orpo_lora",
    "qwen2_orpo_full",         "qwen2_simpo_lora",      "qwen2_simpo_full",
    "qwen2_cpo_lora",          "qwen2_cpo_full",        "qwen2_cpo_simpo_lora",
    "qwen2_kto_lora",          "qwen2_kto_full",        "qwen2_kto_ref_full",
    "qwen2_kto_weighted_lora", "qwen2_kto_nokl_lora"};

// The loss that a case's expected.json asks for.
plan::DocumentLoss LossOf(const Json& expected) {
  const Json& spec = expected.at("spec");
  const std::string kind = expected.at("kind");
  plan::DocumentLoss loss;
  loss.beta = spec.at("beta");
  loss.label_smoothing = spec.value("label_smoothing", 0.0);
  const std::string own = expected.at("adapter") == "lora" ? "base" : "kept";
  if (kind == "dpo") {
    const std::map<std::string, std::string> names = {{"sigmoid_norm", "sigmoid_mean"},
                                                      {"sft", "nll"}};
    const auto weights = spec.value("loss_weights", std::vector<double>{});
    for (const std::string type : spec.at("loss_types")) {
      const auto found = names.find(type);
      const size_t at = loss.terms.size();
      loss.terms.push_back(
          {found == names.end() ? type : found->second, at < weights.size() ? weights[at] : 1.0});
    }
  } else if (kind == "cdpo") {
    loss.terms = {{"smoothed", 1}};
  } else if (kind == "orpo") {
    loss.terms = {{"odds", 1}, {"nll_with_prompt", 1}};
  } else if (kind == "kto") {
    loss.terms = {{spec.at("loss_type") == "kto" ? "kto" : "apo_zero_record", 1}};
    loss.desirable_weight = spec.at("desirable_weight");
    loss.undesirable_weight = spec.at("undesirable_weight");
  } else {
    const bool simpo = spec.at("loss_type") == "simpo";
    loss.terms = {{simpo ? "margin" : "smoothed", 1}};
    if (simpo) loss.margin = spec.at("simpo_gamma");
    if (const double nll = spec.at("cpo_alpha"); nll > 0) loss.terms.push_back({"nll", nll});
  }
  loss.reference = kind == "orpo" || kind == "cpo" ? "none" : own;
  return loss;
}

class PreferenceGoldenTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const NamedCase named = CaseOf(GetParam());
    const std::string name = "preference/" + named.name;
    const std::string folder = support::GoldenFolder(name);
    if (!std::filesystem::exists(folder)) GTEST_SKIP() << "needs " << folder;
    golden_ = LoadGoldenCase(name);
    expected_ = Json::parse(std::ifstream(folder + "/expected.json"));
    loss_ = LossOf(expected_);
    golden_.plan.document_loss = loss_;
    file_ = std::move(SafetensorsFile::Open(folder + "/batch.safetensors").value());
    outputs_ = ReadTensors(folder + "/outputs.safetensors");
    LoadBins();
    golden_.plan.sequence_len = static_cast<int64_t>(bins_.token_ids.size());
    Finish(&golden_.plan);
    if (named.cut_head) CutHead(&golden_.plan);
    if (loss_.reference == "kept" && !std::filesystem::exists(folder + "/reference")) KeepStart();
  }

  // With the reference of the start every reward is 0 there: no rounding decides which is higher.
  void KeepStart() {
    const auto engine = Engine::Prepare(golden_.plan, 0, "");
    ASSERT_TRUE(engine.ok()) << engine.status();
    bins_.references = (*engine)->LogProbs(Unscored(), false).value().sums;
  }

  // Pairs lie side by side.
  void LoadBins() {
    BinBatch bins = Sequences(*file_, "");
    const size_t documents = bins.document_lengths.size();
    if (loss_.reference == "kept") {
      const std::vector<float>& sums = outputs_.at("reference_sum");
      bins.references.assign(sums.begin(), sums.end());
    }
    const bool pairs = loss_.documents_per_unit() == 2;
    if (!pairs) {
      for (const int64_t label : Elements<int64_t>(*file_, "desirable")) {
        bins.values.push_back(static_cast<float>(label));
      }
    }
    units_ = static_cast<int64_t>(pairs ? documents / 2 : documents);
    order_ = pairs ? PairedOrder(documents) : std::vector<size_t>(documents);
    if (!pairs) std::iota(order_.begin(), order_.end(), size_t{0});
    bins_ = Picked(bins, order_, documents);
  }

  // For log-probabilities alone.
  BinBatch Unscored() const {
    BinBatch bins = bins_;
    bins.references.clear();
    bins.values.clear();
    return bins;
  }

  // Rows of the nll term: chosen targets, for ORPO all but a chosen document's first token.
  double NllRatio() const {
    int64_t rows = 0, token = 0;
    for (size_t i = 0; i < bins_.document_lengths.size(); ++i) {
      const int32_t length = bins_.document_lengths[i];
      for (int32_t t = 0; t < length; ++t, ++token) {
        const bool target = bins_.targets[static_cast<size_t>(token)] != 0;
        rows += i % 2 == 0 && (target || (loss_.nll_has_prompt() && t + 1 < length));
      }
    }
    return loss_.has_nll() ? static_cast<double>(units_) / static_cast<double>(rows) : 0;
  }

  BinBatch Mismatched() const { return Sequences(*file_, "kl_"); }

  // The reference of full training is a model of its own in *_ref_full, else the start.
  void KeepMismatchedReference(Engine* engine) {
    if (loss_.terms.front().type != "kto") return;
    const std::string folder = support::GoldenFolder(golden_.name) + "/reference";
    std::unique_ptr<Engine> other;
    if (std::filesystem::exists(folder)) {
      plan::Plan plan = golden_.plan;
      plan.model_path = folder;
      other = std::move(Engine::Prepare(plan, 0, "").value());
    }
    kl_reference_ = (other == nullptr ? *engine : *other)
                        .LogProbs(Mismatched(), loss_.reference == "base")
                        .value()
                        .sums;
  }

  double Kl(Engine* engine) const {
    if (loss_.terms.front().type != "kto") return 0;
    const std::vector<double> sums = engine->LogProbs(Mismatched(), false).value().sums;
    double difference = 0;
    for (size_t i = 0; i < sums.size(); ++i) difference += sums[i] - kl_reference_[i];
    return std::max(0.0, difference / static_cast<double>(sums.size()));
  }

  TrainStep Step(int64_t step, double kl) const {
    TrainStep train;
    train.step = step;
    train.bins = bins_;
    train.loss_denominator = units_;
    train.learning_rate = golden_.trajectory[static_cast<size_t>(step)].learning_rate;
    train.documents = {.nll_ratio = NllRatio(), .kl = kl};
    return train;
  }

  // Against the metrics of TRL, whose absolute rounding is of float32.
  void CheckReport(const PreferenceStats& got, const Json& want) const {
    const auto compare = [&](const char* name, double sum, int64_t count) {
      if (!want.contains(name) || count == 0) return;
      const double expected = want.at(name);
      EXPECT_NEAR(sum / static_cast<double>(count), expected,
                  kReportLimit * std::max(1.0, std::abs(expected)))
          << name;
    };
    compare("rewards/chosen", got.rewards_chosen, got.chosen);
    compare("rewards/rejected", got.rewards_rejected, got.rejected);
    if (loss_.documents_per_unit() == 2) compare("rewards/accuracies", got.accuracies, got.chosen);
    compare("logps/chosen", got.logps_chosen, got.chosen);
    compare("logps/rejected", got.logps_rejected, got.rejected);
  }

  GoldenCase golden_;
  Json expected_;
  plan::DocumentLoss loss_;
  std::unique_ptr<SafetensorsFile> file_;
  Tensors outputs_;
  std::vector<size_t> order_;  // of the file's sequences in bins_
  BinBatch bins_;
  int64_t units_ = 0;
  std::vector<double> kl_reference_;
};

TEST_P(PreferenceGoldenTest, LogProbabilitiesOfPolicyAndReference) {
  const absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Prepare(golden_.plan, 0, "");
  ASSERT_TRUE(engine.ok()) << engine.status();
  const auto check = [&](const char* name, bool without_adapters) {
    const auto stats = (*engine)->LogProbs(Unscored(), without_adapters);
    ASSERT_TRUE(stats.ok()) << stats.status();
    ASSERT_EQ(stats->sums.size(), order_.size());
    for (size_t i = 0; i < order_.size(); ++i) {
      const double want = outputs_.at(name)[order_[i]];
      EXPECT_NEAR(stats->sums[i], want, kLossLimit * (1 + std::abs(want))) << name << " " << i;
    }
  };
  check("policy_sum", false);
  if (loss_.reference == "base") check("reference_sum", true);
}

TEST_P(PreferenceGoldenTest, LossGradientsAndReports) {
  const absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Prepare(golden_.plan, 0, "");
  ASSERT_TRUE(engine.ok()) << engine.status();
  KeepMismatchedReference(engine->get());
  const double kl = Kl(engine->get());
  const auto evaluated = (*engine)->Evaluate(bins_, {.nll_ratio = NllRatio(), .kl = kl});
  ASSERT_TRUE(evaluated.ok()) << evaluated.status();
  CheckReport(evaluated->preference, expected_.at("metrics"));
  if (expected_.at("metrics").contains("kl")) {
    EXPECT_NEAR(kl, expected_.at("metrics").at("kl").get<double>(), kReportLimit);
  }
  std::string doing;
  const auto state = MakeState(golden_.plan, 0, "", &doing);
  ASSERT_TRUE(state.ok()) << state.status();
  const double loss = GradientStep(**state, Step(0, kl)) / static_cast<double>(units_);
  EXPECT_NEAR(loss, golden_.loss, kLossLimit * std::max(1.0, std::abs(golden_.loss)));
  EXPECT_NEAR(evaluated->loss_sum / static_cast<double>(units_), loss, kLossLimit);
  std::printf("%s: loss off by %.2e, gradients by %.2e\n", golden_.name.c_str(),
              std::abs(loss - golden_.loss), CheckGradients(golden_, **state));
}

// One pair or record a micro-step: denominators are those of the whole batch.
TEST_P(PreferenceGoldenTest, TheCutIntoMicroStepsChangesRoundingAlone) {
  plan::Plan plan = golden_.plan;
  TrainStep cut = Step(0, 0.25);
  std::vector<size_t> all(order_.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  const auto unit = static_cast<size_t>(loss_.documents_per_unit());
  cut.bins = Picked(bins_, all, unit);
  std::string doing;
  const auto whole = MakeState(golden_.plan, 0, "", &doing), parts = MakeState(plan, 0, "", &doing);
  ASSERT_TRUE(whole.ok() && parts.ok());
  const double loss = GradientStep(**whole, Step(0, 0.25)), sum = GradientStep(**parts, cut);
  EXPECT_NEAR(sum, loss, kLossLimit * std::max(1.0, std::abs(loss)));
  CheckSameGradients(**parts, **whole);
}

TEST_P(PreferenceGoldenTest, TwentyStepsAndFinalWeights) {
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Prepare(golden_.plan, 0, "");
  ASSERT_TRUE(engine.ok()) << engine.status();
  KeepMismatchedReference(engine->get());
  ASSERT_EQ(golden_.trajectory.size(), 20u);
  for (size_t i = 0; i < golden_.trajectory.size(); ++i) {
    const GoldenStep& expected = golden_.trajectory[i];
    const double kl = Kl(engine->get());
    const auto stats = (*engine)->Train(Step(static_cast<int64_t>(i), kl));
    ASSERT_TRUE(stats.ok()) << stats.status();
    const double loss = stats->global_loss_sum / static_cast<double>(units_);
    EXPECT_NEAR(loss, expected.loss, kStepLossLimit * std::max(1.0, std::abs(expected.loss)))
        << "step " << i;
    EXPECT_NEAR(stats->grad_norm, expected.grad_norm,
                kStepNormLimit * std::max(expected.grad_norm, 1e-2))
        << "step " << i;
  }
  CheckFinalWeights(golden_, engine->get());
}

INSTANTIATE_TEST_SUITE_P(CutHeads, PreferenceGoldenTest,
                         testing::Values("cut_qwen2_dpo_lora", "cut_qwen2_dpo_ref_full",
                                         "cut_qwen2_orpo_full", "cut_qwen2_kto_lora"),
                         [](const auto& info) { return std::string(info.param); });
INSTANTIATE_TEST_SUITE_P(Cases, PreferenceGoldenTest, testing::ValuesIn(kPreferenceCases),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace preference_golden_test
}  // namespace coxswain::engine
