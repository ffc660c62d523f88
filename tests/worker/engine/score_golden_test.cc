// Losses of scores against what TRL's and transformers' own code computed in float64: losses,
// gradients, reports, twenty steps and final weights. tests/fixtures/README.md says what each file
// holds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
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
namespace score_golden_test {
namespace {

using Json = nlohmann::json;

constexpr double kLossLimit = 1e-6, kReportLimit = 1e-5;
constexpr double kStepLossLimit = 1e-5, kStepNormLimit = 5e-5;

constexpr const char* kScoreCases[] = {"qwen2_reward_full",
                                       "qwen2_reward_lora",
                                       "llama_reward_full",
                                       "llama_reward_margin_lora",
                                       "qwen2_seqcls_full",
                                       "llama_seqcls_lora",
                                       "qwen2_seqcls_multilabel_lora",
                                       "qwen2_seqcls_regression_lora"};

class ScoreGoldenTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string name = std::string("preference/") + GetParam();
    const std::string folder = support::GoldenFolder(name);
    if (!std::filesystem::exists(folder)) GTEST_SKIP() << "needs " << folder;
    golden_ = LoadGoldenCase(name);
    expected_ = Json::parse(std::ifstream(folder + "/expected.json"));
    const Json config = Json::parse(std::ifstream(folder + "/config.json"));
    SetLoss(config.value("problem_type", ""));
    LoadBins(folder);
    golden_.plan.sequence_len = static_cast<int64_t>(bins_.token_ids.size());
    Finish(&golden_.plan);
  }

  void SetLoss(const std::string& problem) {
    plan::DocumentLoss& loss = golden_.plan.document_loss;
    loss.labels = golden_.plan.model.labels;
    const bool reward = expected_.at("kind") == "reward";
    const size_t end = problem.find("_classification");
    loss.terms = {{.type = reward ? "bradley_terry" : problem.substr(0, end)}};
    if (reward) loss.centre = expected_.at("spec").value("center_rewards_coefficient", 0.0);
  }

  void LoadBins(const std::string& folder) {
    const auto file = SafetensorsFile::Open(folder + "/batch.safetensors").value();
    BinBatch bins = Sequences(*file, "");
    const size_t documents = bins.document_lengths.size();
    if (const TensorInfo* targets = file->Find("targets"); targets != nullptr) {
      bins.values.resize(static_cast<size_t>(targets->elements()));
      if (targets->dtype == ElementType::kF32) {
        bins.values = Elements<float>(*file, "targets");
      } else {
        const auto classes = Elements<int64_t>(*file, "targets");
        bins.values.assign(classes.begin(), classes.end());
      }
    } else {
      bins.values.resize(documents, 0);
    }
    if (file->Find("margins") != nullptr) {
      const auto margins = Elements<float>(*file, "margins");
      std::copy(margins.begin(), margins.end(), bins.values.begin());
    }
    const bool pairs = golden_.plan.document_loss.documents_per_unit() == 2;
    order_ = pairs ? PairedOrder(documents) : std::vector<size_t>(documents);
    if (!pairs) std::iota(order_.begin(), order_.end(), size_t{0});
    units_ = static_cast<int64_t>(pairs ? documents / 2 : documents);
    bins_ = Picked(bins, order_, documents);
  }

  TrainStep Step(int64_t step) const {
    TrainStep train;
    train.step = step;
    train.bins = bins_;
    train.loss_denominator = units_;
    train.learning_rate = golden_.trajectory[static_cast<size_t>(step)].learning_rate;
    return train;
  }

  void CheckReport(const PreferenceStats& got) const {
    const Json& want = expected_.at("metrics");
    const auto count = static_cast<double>(got.chosen);
    ASSERT_EQ(got.chosen, units_);
    if (want.contains("accuracy")) {
      EXPECT_NEAR(got.accuracies / count, want.at("accuracy").get<double>(), kReportLimit);
    }
    if (want.contains("margin")) {
      EXPECT_NEAR((got.rewards_chosen - got.rewards_rejected) / count,
                  want.at("margin").get<double>(), kReportLimit);
      EXPECT_NEAR((got.rewards_chosen + got.rewards_rejected) / (2 * count),
                  want.at("mean_reward").get<double>(), kReportLimit);
    }
  }

  GoldenCase golden_;
  Json expected_;
  std::vector<size_t> order_;  // of the file's sequences in bins_
  BinBatch bins_;
  int64_t units_ = 0;
};

TEST_P(ScoreGoldenTest, LossGradientsAndReports) {
  const absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Prepare(golden_.plan, 0, "");
  ASSERT_TRUE(engine.ok()) << engine.status();
  const auto evaluated = (*engine)->Evaluate(bins_, {});
  ASSERT_TRUE(evaluated.ok()) << evaluated.status();
  CheckReport(evaluated->preference);
  std::string doing;
  const auto state = MakeState(golden_.plan, 0, "", &doing);
  ASSERT_TRUE(state.ok()) << state.status();
  const double loss = GradientStep(**state, Step(0)) / static_cast<double>(units_);
  EXPECT_NEAR(loss, golden_.loss, kLossLimit * std::max(1.0, std::abs(golden_.loss)));
  EXPECT_NEAR(evaluated->loss_sum / static_cast<double>(units_), loss, kLossLimit);
  std::printf("%s: loss off by %.2e, gradients by %.2e\n", golden_.name.c_str(),
              std::abs(loss - golden_.loss), CheckGradients(golden_, **state));
}

// One pair or text a micro-step: denominators are those of the whole batch.
TEST_P(ScoreGoldenTest, TheCutIntoMicroStepsChangesRoundingAlone) {
  TrainStep cut = Step(0);
  std::vector<size_t> all(order_.size());
  std::iota(all.begin(), all.end(), size_t{0});
  const auto unit = static_cast<size_t>(golden_.plan.document_loss.documents_per_unit());
  cut.bins = Picked(bins_, all, unit);
  std::string doing;
  const auto whole = MakeState(golden_.plan, 0, "", &doing),
             parts = MakeState(golden_.plan, 0, "", &doing);
  ASSERT_TRUE(whole.ok() && parts.ok());
  const double loss = GradientStep(**whole, Step(0)), sum = GradientStep(**parts, cut);
  EXPECT_NEAR(sum, loss, kLossLimit * std::max(1.0, std::abs(loss)));
  CheckSameGradients(**parts, **whole);
}

TEST_P(ScoreGoldenTest, TwentyStepsAndFinalWeights) {
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Prepare(golden_.plan, 0, "");
  ASSERT_TRUE(engine.ok()) << engine.status();
  ASSERT_EQ(golden_.trajectory.size(), 20u);
  for (size_t i = 0; i < golden_.trajectory.size(); ++i) {
    const GoldenStep& expected = golden_.trajectory[i];
    const auto stats = (*engine)->Train(Step(static_cast<int64_t>(i)));
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

// A text that ends in padding is scored before it.
TEST_P(ScoreGoldenTest, PaddingAtTheEndIsNotScored) {
  plan::Plan plan = golden_.plan;
  plan.sequence_len += static_cast<int64_t>(bins_.document_lengths.size());
  Finish(&plan);
  BinBatch padded = bins_;
  size_t token = 0;
  for (int32_t& length : padded.document_lengths) {
    token += static_cast<size_t>(length);
    padded.token_ids.insert(padded.token_ids.begin() + static_cast<ptrdiff_t>(token),
                            static_cast<int32_t>(plan.model.pad_token.value()));
    padded.targets.insert(padded.targets.begin() + static_cast<ptrdiff_t>(token), 0);
    ++token;
    ++length;
  }
  const auto engine = Engine::Prepare(plan, 0, "");
  ASSERT_TRUE(engine.ok()) << engine.status();
  const auto want = (*engine)->Evaluate(bins_, {}), got = (*engine)->Evaluate(padded, {});
  ASSERT_TRUE(want.ok() && got.ok()) << got.status();
  EXPECT_NEAR(got->loss_sum, want->loss_sum, kLossLimit * std::max(1.0, want->loss_sum));
}

INSTANTIATE_TEST_SUITE_P(Cases, ScoreGoldenTest, testing::ValuesIn(kScoreCases),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace score_golden_test
}  // namespace coxswain::engine
