// The router and its losses against what transformers does in float64: the experts of every token,
// their weights and the auxiliary loss.
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "kernels/experts/route.h"
#include "kernels/experts/router_loss.h"
#include "tests/kernels/expert_golden.h"
#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace router_golden_test {
namespace {

struct Golden {
  const char* name;
  RouteSpec spec;  // beside the two counts, which the file has
  int first_layer;
};

class RouterGoldenTest : public testing::TestWithParam<Golden> {};

// The logits are rounded to float32. A weight meets fewer than 100 roundings, as in route_test.cc;
// the range of the logits is below 12. The losses are means of such probabilities.
TEST_P(RouterGoldenTest, ChoosesAndWeighsAsTransformers) {
  const std::string folder = ExpertGoldenFolder(GetParam().name);
  if (folder.empty()) GTEST_SKIP() << "needs moe/" << GetParam().name;
  const GoldenTensors router(folder + "/router.safetensors");
  const GoldenTensors model(folder + "/model.safetensors");
  Doubles sums, losses(2);
  RouterLossSpec pool;
  for (int layer = GetParam().first_layer; layer < 2; ++layer) {
    const std::string name = "layer." + std::to_string(layer);
    const auto logits = router.Values<float>(name + ".logits");
    const auto want_ids = router.Values<int64_t>(name + ".experts");
    const auto want = router.Values<float>(name + ".weights");
    const std::string correction =
        "model.layers." + std::to_string(layer) + ".mlp.gate.e_score_correction_bias";
    const Floats bias = model.Has(correction) ? model.Values<float>(correction) : Floats();
    RouteSpec spec = GetParam().spec;
    spec.experts = router.Shape(name + ".logits")[1];
    spec.chosen = router.Shape(name + ".experts")[1];
    EXPECT_EQ(bias.empty(), spec.score == RouterScore::kSoftmax);
    const int64_t tokens = router.Shape(name + ".logits")[0];
    std::vector<int32_t> ids(want_ids.size());
    Floats weights(want.size());
    RouteForward({.spec = spec,
                  .tokens = tokens,
                  .logits = logits.data(),
                  .bias = bias.empty() ? nullptr : bias.data(),
                  .ids = ids.data(),
                  .weights = weights.data()},
                 nullptr);
    EXPECT_EQ(std::vector<int64_t>(ids.begin(), ids.end()), want_ids) << name;
    ExpectWithin(weights, Double(want), 100 * kUnit * spec.scale, name);
    pool = {.experts = spec.experts, .chosen = spec.chosen};
    Scratch scratch(RouterLossSumsWorkspaceBytes(pool, tokens));
    const bool first = sums.empty();
    sums.resize(Size(RouterLossSumCount(pool)));
    RouterLossSums({.spec = pool,
                    .tokens = tokens,
                    .logits = logits.data(),
                    .ids = ids.data(),
                    .accumulate = !first,
                    .sums = sums.data(),
                    .workspace = scratch.view()},
                   nullptr);
  }
  const auto expected = nlohmann::json::parse(std::ifstream(folder + "/expected.json"));
  if (expected["aux_loss"].is_null()) return;
  RouterLoss({.spec = pool, .sums = sums.data(), .losses = losses.data()}, nullptr);
  const auto want = expected["aux_loss"].get<double>();
  EXPECT_NEAR(losses[0], want, 100 * kUnit * want);
}

constexpr RouteSpec kRenormalised{.renormalise = true};
INSTANTIATE_TEST_SUITE_P(
    Families, RouterGoldenTest,
    testing::Values(Golden{"mixtral_aux_full", kRenormalised, 0},
                    Golden{"qwen3_moe_aux_full", kRenormalised, 0},
                    Golden{"qwen3_moe_nonorm_aux_full", {}, 1},
                    Golden{"gpt_oss_aux_full", kRenormalised, 0},
                    Golden{"glm4_moe_full",
                           {.score = RouterScore::kSigmoid, .renormalise = true, .scale = 1.5f},
                           1},
                    Golden{"deepseek_v3_full",
                           {.score = RouterScore::kSigmoid,
                            .groups = 2,
                            .top_groups = 1,
                            .renormalise = true,
                            .scale = 1.5f},
                           1}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace router_golden_test
}  // namespace coxswain::kernels
