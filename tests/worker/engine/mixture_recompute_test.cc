// Blocks with experts whose rows are computed again have the bits of those that keep them, whatever
// is trained; what a router chose is kept. Invariant engine-4.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "tests/worker/engine/support/mixture_cases.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/make_state.h"

namespace coxswain::engine {
namespace mixture_recompute_test {
namespace {

std::unique_ptr<State> Made(const MixtureCase& mixture, const std::string& level,
                            const std::string& dtype) {
  PlanOptions options = mixture.options;
  options.recompute = level;
  options.compute_dtype = dtype;
  std::string doing;
  auto state = MakeState(MakePlan(mixture.config, options), 0, "", &doing);
  EXPECT_TRUE(state.ok()) << doing << ": " << state.status();
  return state.ok() ? *std::move(state) : nullptr;
}

class MixtureRecomputeTest : public testing::TestWithParam<MixtureCase> {
 protected:
  struct Numbers {
    std::vector<double> losses, norms;
    std::vector<float> gradients;  // of the step behind these
  };

  // Adapters begin at 0 and hide gradients until they have moved.
  static Numbers Train(const std::string& level, const std::string& dtype) {
    const std::unique_ptr<State> state = Made(GetParam(), level, dtype);
    Numbers numbers;
    for (int64_t step = 0; state != nullptr && step < 2; ++step) {
      const auto stats = RunTrainStep(*state, MakeStep(step, MixtureBins(step)));
      EXPECT_TRUE(stats.ok()) << stats.status();
      if (!stats.ok()) return numbers;
      numbers.losses.push_back(stats->global_loss_sum);
      numbers.norms.push_back(stats->grad_norm);
    }
    if (state == nullptr) return numbers;
    numbers.losses.push_back(GradientStep(*state, MakeStep(2, MixtureBins(2))));
    numbers.gradients = AllGradients(*state);
    return numbers;
  }
};

TEST_P(MixtureRecomputeTest, LevelsGiveTheBitsOfWhatIsKept) {
  for (const char* dtype : {"float32", "bfloat16"}) {
    if (std::string(dtype) == "bfloat16" && TestDevice() == "cpu") continue;
    const Numbers kept = Train("none", dtype);
    ASSERT_EQ(kept.losses.size(), 3u);
    EXPECT_GT(kept.norms[1], 0.0);
    EXPECT_TRUE(std::any_of(kept.gradients.begin(), kept.gradients.end(),
                            [](float gradient) { return gradient != 0; }));
    for (const std::string& level : LevelsOfMixtures()) {
      const Numbers again = Train(level, dtype);
      EXPECT_EQ(again.losses, kept.losses) << dtype << " " << level;
      EXPECT_EQ(again.norms, kept.norms) << dtype << " " << level;
      EXPECT_TRUE(again.gradients == kept.gradients) << dtype << " " << level;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, MixtureRecomputeTest, testing::ValuesIn(MixtureCases()),
                         [](const auto& info) { return info.param.name; });

template <typename BoundOpType>
int64_t CountOf(const std::vector<BoundOp>& ops) {
  return std::count_if(ops.begin(), ops.end(),
                       [](const BoundOp& op) { return std::holds_alternative<BoundOpType>(op); });
}

// Of the second block of GLM-4.5, which has an MLP beside its experts: the down stack alone, then
// both stacks and gate and up of that MLP. Attention and the router are kept.
TEST(MixtureAgainTest, LevelsComputeTheirPartOfABlock) {
  for (const MixtureCase& mixture : MixtureCases()) {
    if (mixture.name != "Glm4MoeLoraOfAll") continue;
    for (const auto& [level, stacks, beside] :
         {std::tuple{"none", 0, 0}, {"norm_swiglu", 0, 0}, {"expert_out", 1, 0}, {"ffn", 2, 1}}) {
      const std::unique_ptr<State> state = Made(mixture, level, "float32");
      ASSERT_NE(state, nullptr);
      const std::vector<BoundOp>& again = state->ops.blocks[1].again;
      const int64_t fused = CountOf<BoundGatedLinear>(again);
      EXPECT_EQ(CountOf<BoundGroupedLinear>(again), stacks) << level;
      EXPECT_EQ(CountOf<BoundLinear>(again) + fused, beside) << level;
      EXPECT_EQ(CountOf<BoundDispatch>(again), std::string(level) == "none" ? 0 : 1) << level;
      EXPECT_EQ(CountOf<BoundRoute>(again) + CountOf<BoundAttention>(again), 0) << level;
      EXPECT_EQ(CountOf<BoundCombine>(again), 0) << level;
      EXPECT_TRUE(state->ops.blocks.back().again.empty()) << level;
      for (const BoundOp& op : again) {
        const auto* experts = std::get_if<BoundGroupedLinear>(&op);
        if (experts == nullptr || stacks == 2) continue;
        EXPECT_EQ(experts->spec.in_features, mixture.config.mixture.width) << level;
      }
    }
  }
}

}  // namespace
}  // namespace mixture_recompute_test
}  // namespace coxswain::engine
