#include "common/model/saved_modules.h"

#include <set>

#include "common/model/parameter_table.h"
#include "gtest/gtest.h"
#include "tests/support/half_billion.h"

namespace coxswain::model {
namespace {

using support::HalfBillion;
using Names = std::vector<std::string>;

class SavedModulesTest : public testing::Test {
 protected:
  SavedModulesTest() { config_.num_layers = 2; }

  std::vector<Parameter> Table() const {
    return *WithLora(BaseParameterTable(config_), config_, {4, {"q_proj"}});
  }

  // Names of what is saved.
  std::set<std::string> Saved(const Names& names) const {
    const std::vector<Parameter> table = Table();
    const auto saved = SavedModules(table, config_, names);
    EXPECT_TRUE(saved.ok()) << saved.status();
    std::set<std::string> found;
    for (size_t i = 0; i < table.size(); ++i) {
      if ((*saved)[i]) found.insert(table[i].name);
    }
    return found;
  }

  void ExpectRefused(const Names& names, const std::string& part) const {
    const absl::Status status = SavedModules(Table(), config_, names).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_NE(std::string(status.message()).find(part), std::string::npos) << status;
  }

  ModelConfig config_ = HalfBillion();
};

TEST_F(SavedModulesTest, ANameMeansEveryModuleWhosePathEndsInIt) {
  const std::string layer = "model.layers.0.", other = "model.layers.1.";
  EXPECT_EQ(Saved({"input_layernorm"}), (std::set<std::string>{layer + "input_layernorm.weight",
                                                               other + "input_layernorm.weight"}));
  EXPECT_EQ(Saved({"norm"}),
            (std::set<std::string>{
                layer + "input_layernorm.weight", layer + "post_attention_layernorm.weight",
                other + "input_layernorm.weight", other + "post_attention_layernorm.weight",
                "model.norm.weight"}));
  EXPECT_EQ(Saved({"model.norm"}), (std::set<std::string>{"model.norm.weight"}));
  EXPECT_TRUE(Saved({}).empty());
}

TEST_F(SavedModulesTest, EitherNameMeansTheTiedMatrix) {
  ASSERT_TRUE(config_.tie_embeddings);
  const std::set<std::string> both = {"model.embed_tokens.weight"};
  EXPECT_EQ(Saved({"embed_tokens"}), both);
  EXPECT_EQ(Saved({"lm_head"}), both);
  EXPECT_EQ(ListedModules(config_, {"lm_head"}), (Names{"lm_head", "embed_tokens"}));
  EXPECT_EQ(ListedModules(config_, {"model.embed_tokens", "norm"}),
            (Names{"model.embed_tokens", "norm", "lm_head"}));
  EXPECT_EQ(ListedModules(config_, {"norm"}), Names{"norm"});
  EXPECT_EQ(
      AdapterFileKeys(config_, Table().front()),
      (Names{"base_model.model.model.embed_tokens.weight", "base_model.model.lm_head.weight"}));
  config_.tie_embeddings = false;
  EXPECT_EQ(Saved({"lm_head"}), std::set<std::string>{"lm_head.weight"});
  EXPECT_EQ(ListedModules(config_, {"lm_head"}), Names{"lm_head"});
  EXPECT_EQ(AdapterFileKeys(config_, Table().front()),
            Names{"base_model.model.model.embed_tokens.weight"});
}

TEST_F(SavedModulesTest, RefusesByNameWhatItCannotTrain) {
  ExpectRefused({"embed_tokns"},
                "\"embed_tokns\" ends the name of no module; known: embed_tokens, lm_head, "
                "input_layernorm, post_attention_layernorm, norm");
  ExpectRefused({""}, "ends the name of no module");
  ExpectRefused({"up_proj"}, "\"up_proj\" names model.layers.0.mlp.up_proj, a linear");
  ExpectRefused({"proj"}, "adapter: none");
  config_.architecture = "Qwen3ForCausalLM";
  config_.qkv_bias = false;
  config_.qk_norm = true;
  ExpectRefused({"q_norm"}, "name both, or neither");
  EXPECT_EQ(Saved({"q_norm", "k_norm"}).size(), 4u);
}

}  // namespace
}  // namespace coxswain::model
