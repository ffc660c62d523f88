// The router and its losses against what transformers does in float64: the experts of every token,
// their weights and the auxiliary loss of the models of $COXSWAIN_FIXTURES/moe. Skipped where the
// folder is not.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/files/safetensors.h"
#include "kernels/route.h"
#include "kernels/router_loss.h"
#include "tests/kernels/testing.h"
#include "tests/support/golden_folder.h"

namespace coxswain::kernels {
namespace router_golden_test {
namespace {

struct Golden {
  const char* name;
  RouteSpec spec;  // beside the two counts, which the file has
  int first_layer;
};

class RouterGoldenTest : public testing::TestWithParam<Golden> {
 protected:
  static std::string Path(const char* file) {
    return support::GoldenFolder(std::string("moe/") + GetParam().name) + "/" + file;
  }
  void SetUp() override {
    if (!std::filesystem::exists(Path("router.safetensors"))) {
      GTEST_SKIP() << Path("router.safetensors") << " is not there";
    }
    router_ = Open("router.safetensors");
    model_ = Open("model.safetensors");
  }

  static std::unique_ptr<SafetensorsFile> Open(const char* name) {
    auto file = SafetensorsFile::Open(Path(name));
    if (!file.ok()) throw std::runtime_error(file.status().ToString());
    return *std::move(file);
  }
  template <typename T>
  static std::vector<T> Values(const SafetensorsFile& file, const std::string& name) {
    const TensorInfo* tensor = file.Find(name);
    if (tensor == nullptr) return {};
    std::vector<T> values(static_cast<size_t>(tensor->bytes) / sizeof(T));
    std::memcpy(values.data(), tensor->data, static_cast<size_t>(tensor->bytes));
    return values;
  }

  std::unique_ptr<SafetensorsFile> router_, model_;
};

// The logits are rounded to float32. A weight meets fewer than 100 roundings, as in route_test.cc;
// the range of the logits is below 12. The losses are means of such probabilities.
TEST_P(RouterGoldenTest, ChoosesAndWeighsAsTransformers) {
  Doubles sums, losses(2);
  RouterLossSpec pool;
  for (int layer = GetParam().first_layer; layer < 2; ++layer) {
    const std::string name = "layer." + std::to_string(layer);
    const auto logits = Values<float>(*router_, name + ".logits");
    const auto want_ids = Values<int64_t>(*router_, name + ".experts");
    const auto want = Values<float>(*router_, name + ".weights");
    const auto bias = Values<float>(
        *model_, "model.layers." + std::to_string(layer) + ".mlp.gate.e_score_correction_bias");
    RouteSpec spec = GetParam().spec;
    spec.experts = router_->Find(name + ".logits")->shape[1];
    spec.chosen = router_->Find(name + ".experts")->shape[1];
    EXPECT_EQ(bias.empty(), spec.score == RouterScore::kSoftmax);
    const int64_t tokens = router_->Find(name + ".logits")->shape[0];
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
  const auto expected = nlohmann::json::parse(std::ifstream(Path("expected.json")));
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
