// Whole model in bfloat16 against the golden values, which are float64: gradients tensor by tensor
// and 20 steps with the weights at their end. Limits are the project's: cosine >= 0.999, norm
// within 2 % (0.5 % on average), loss within 1 %. A tensor whose gradient is rounding alone (a key
// bias shifts every score alike) has no direction to compare: tensors below 1e-4 of the whole norm
// are left out. The relative errors of the gradients go to the report as the property
// gradient_errors, which tests/reference/torch_bf16_errors.py compares with those of torch in
// bfloat16.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "tests/support/golden_folder.h"
#include "tests/support/scratch_folder.h"
#include "tests/worker/engine/support/golden_case.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/make_state.h"

namespace coxswain::engine {
namespace golden_bf16_test {
namespace {

constexpr double kCosine = 0.999, kNorm = 0.02, kMeanNorm = 0.005, kLoss = 0.01;
// Of trained weights over the way that 20 steps went: of all tensors together, and of one. An
// update of Adam turns with the sign of a gradient that is rounding alone, so that no unit of
// rounding bounds it. Torch itself is 0.039 and 0.066 away at most, in two orders of sums; twice
// that is allowed. Source: tests/reference/torch_bf16_trajectory.py on the cases below.
constexpr double kWay = 2 * 0.039, kTensorWay = 2 * 0.066;

class GoldenBf16Test : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string folder = support::GoldenFolder(GetParam());
    if (!std::filesystem::exists(folder)) GTEST_SKIP() << "needs " << folder;
    golden_ = LoadGoldenCase(GetParam());
    golden_.plan.compute_dtype = Precision::kBfloat16;
    Finish(&golden_.plan);
  }
  TrainStep Step(int64_t step) const {
    TrainStep train;
    train.step = step;
    train.bins = golden_.bins;
    train.loss_denominator = golden_.targets;
    train.learning_rate = golden_.trajectory[static_cast<size_t>(step)].learning_rate;
    return train;
  }
  void ExpectLossesOfTwentySteps(double allowed = kLoss) const {
    auto engine = Engine::Prepare(golden_.plan, 0, "");
    ASSERT_TRUE(engine.ok()) << engine.status();
    ExpectLosses(**engine, allowed);
  }
  void ExpectLosses(Engine& engine, double allowed) const {
    for (size_t i = 0; i < golden_.trajectory.size(); ++i) {
      const auto stats = engine.Train(Step(static_cast<int64_t>(i)));
      ASSERT_TRUE(stats.ok()) << stats.status();
      const double loss = stats->global_loss_sum / static_cast<double>(golden_.targets);
      EXPECT_NEAR(loss / golden_.trajectory[i].loss, 1.0, allowed) << "step " << i;
    }
  }
  GoldenCase golden_;
};

struct Dots {
  double ab = 0, aa = 0, bb = 0;
};

Dots DotsOf(const std::vector<float>& a, const std::vector<float>& b) {
  Dots dots;
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = a[i], y = b[i];
    dots.ab += x * y;
    dots.aa += x * x;
    dots.bb += y * y;
  }
  return dots;
}

TEST_P(GoldenBf16Test, GradientsPointTheSameWay) {
  std::string doing;
  auto state = MakeState(golden_.plan, 0, "", &doing);
  ASSERT_TRUE(state.ok()) << state.status();
  const double loss = GradientStep(**state, Step(0)) / static_cast<double>(golden_.targets);
  EXPECT_NEAR(loss / golden_.loss, 1.0, kLoss);
  double worst_cosine = 1, worst_norm = 0, mean_norm = 0;
  int tensors = 0;
  nlohmann::json errors;
  for (size_t i = 0; i < golden_.plan.parameters.size(); ++i) {
    const model::Parameter& parameter = golden_.plan.parameters[i];
    if (!parameter.trainable()) continue;
    const Dots dots = DotsOf(GradientOf(**state, i), golden_.gradients.at(parameter.name));
    if (std::sqrt(dots.bb) < 1e-4 * golden_.grad_norm) continue;
    errors[parameter.name] = std::sqrt((dots.aa - 2 * dots.ab + dots.bb) / dots.bb);
    const double cosine = dots.ab / std::sqrt(dots.aa * dots.bb);
    const double norm = std::abs(std::sqrt(dots.aa / dots.bb) - 1);
    EXPECT_GE(cosine, kCosine) << parameter.name;
    EXPECT_LE(norm, kNorm) << parameter.name;
    worst_cosine = std::min(worst_cosine, cosine);
    worst_norm = std::max(worst_norm, norm);
    mean_norm += norm;
    ++tensors;
  }
  EXPECT_LE(mean_norm / tensors, kMeanNorm);
  RecordProperty("gradient_errors", errors.dump());
  std::printf("%s: loss %+.1e, %d tensors, cosine >= %.5f, norm %.2e worst %.2e mean\n",
              golden_.name.c_str(), loss / golden_.loss - 1, tensors, worst_cosine, worst_norm,
              mean_norm / tensors);
}

// A key bias has no direction of its own: left out.
void ExpectFinalWeights(const GoldenCase& golden, const Tensors& trained) {
  double wrong = 0, way = 0, worst = 0;
  for (const auto& [name, expected] : golden.final) {
    ASSERT_EQ(trained.count(name), 1u) << name;
    const std::vector<float>&start = golden.initial.at(name), &end = trained.at(name);
    if (name.find("k_proj.bias") != std::string::npos) continue;
    const double error = ErrorOfTheWay(end, expected, start);
    EXPECT_LE(error, kTensorWay) << name;
    worst = std::max(worst, error);
    for (size_t i = 0; i < expected.size(); ++i) {
      wrong += std::pow(static_cast<double>(end[i]) - expected[i], 2);
      way += std::pow(static_cast<double>(expected[i]) - start[i], 2);
    }
  }
  EXPECT_LE(std::sqrt(wrong / way), kWay);
  std::printf("%s: weights %.4f of their way, worst %.4f\n", golden.name.c_str(),
              std::sqrt(wrong / way), worst);
}

TEST_P(GoldenBf16Test, TwentyStepsAndFinalWeights) {
  auto engine = Engine::Prepare(golden_.plan, 0, "");
  ASSERT_TRUE(engine.ok()) << engine.status();
  ExpectLosses(**engine, kLoss);
  if (golden_.final.empty()) return;  // of a case that is not stored whole
  const support::ScratchFolder folder;
  ASSERT_TRUE((*engine)->Snapshot(20).ok());
  ASSERT_TRUE((*engine)->SaveShard(folder.path(), 20).ok());
  ExpectFinalWeights(golden_, ReadTensors(folder.path() + "/rank-0.safetensors"));
}

// Gradients are not compared: in bfloat16 a token whose scores nearly tie may go to other experts.
class ExpertsBf16Test : public GoldenBf16Test {};

// Torch itself is further than kLoss from these losses, in two orders of sums 0.051 and 0.099, and
// 0.011 and 0.006. Twice the larger is allowed.
// Source: tests/reference/torch_bf16_trajectory.py on the cases of seed 77.
double AllowedOf(std::string_view name) {
  if (name == "moe/deepseek_v3_fp8_full") return 2 * 0.099;
  if (name == "moe/deepseek_v3_qproj_full") return 2 * 0.011;
  return kLoss;
}
TEST_P(ExpertsBf16Test, TwentySteps) { ExpectLossesOfTwentySteps(AllowedOf(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Cases, GoldenBf16Test, testing::ValuesIn(kGoldenCases),
                         [](const auto& info) { return std::string(info.param); });
INSTANTIATE_TEST_SUITE_P(Cases, ExpertsBf16Test, testing::ValuesIn(kExpertCases),
                         [](const auto& info) {
                           return std::string(info.param).substr(std::string("moe/").size());
                         });
INSTANTIATE_TEST_SUITE_P(Quantized, GoldenBf16Test, testing::Values("llama_qlora"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace golden_bf16_test
}  // namespace coxswain::engine
