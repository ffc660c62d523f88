// A configuration in the spelling of transformers 5 and in that of 4 is one model. Invariant
// model-2.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/model/family.h"
#include "common/model/read/read_model_config.h"
#include "tests/support/golden_folder.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::model {
namespace {

using Json = nlohmann::json;

// transformers 4 keeps theta and the rotating part beside what scales the rotation.
void SplitRope(Json* config) {
  Json rope = (*config)["rope_parameters"];
  config->erase("rope_parameters");
  if (rope.contains("full_attention")) {
    (*config)["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"];
    rope = rope["full_attention"];
  }
  for (const char* key : {"rope_theta", "partial_rotary_factor"}) {
    if (rope.contains(key)) (*config)[key] = rope[key];
    rope.erase(key);
  }
  (*config)["rope_scaling"] = rope["rope_type"] == "default" ? Json() : rope;
}

// The kinds of layers as a period, where they have one.
void NamePattern(Json* config) {
  const Json types = config->value("layer_types", Json::array());
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] != "full_attention") continue;
    config->erase("layer_types");
    (*config)["sliding_window_pattern"] = i + 1;
    config->erase("_sliding_window_pattern");
    return;
  }
}

class DialectsTest : public testing::TestWithParam<const char*> {
 protected:
  ModelConfig Read(const Json& config) const {
    folder_.Write("config.json", config.dump());
    std::vector<std::string> warnings;
    const auto read = ReadModelConfig(folder_.path(), &warnings);
    EXPECT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(warnings.empty()) << warnings[0];
    return read.ok() ? *read : ModelConfig{};
  }
  const Json golden_ =
      Json::parse(std::ifstream(support::GoldenFolder(GetParam()) + std::string("/config.json")));
  support::ScratchFolder folder_;
};

TEST_P(DialectsTest, BothSpellingsAreOneModel) {
  Json older = golden_;
  SplitRope(&older);
  // A period is a key of the families whose layers alternate.
  const bool alternates = older.contains("sliding_window") && !older["sliding_window"].is_null();
  if (alternates && older["model_type"] != "gemma2") NamePattern(&older);
  EXPECT_EQ(Read(older), Read(golden_)) << older.dump(1);
}

TEST_P(DialectsTest, TheModelTypeNamesTheFamilyToo) {
  Json unnamed = golden_;
  unnamed.erase("architectures");
  EXPECT_EQ(Read(unnamed), Read(golden_));
}

INSTANTIATE_TEST_SUITE_P(Goldens, DialectsTest,
                         testing::Values("gemma_full", "gemma2_full", "gemma3_text_full",
                                         "olmo2_full", "glm4_full", "cohere_full", "cohere2_full",
                                         "starcoder2_full", "phi3_full", "phi3_longrope_long_full",
                                         "phi4_mini_full", "ministral3_full", "granite_full",
                                         "smollm3_full", "llama_linear_full", "llama_yarn_full"),
                         [](const auto& info) { return std::string(info.param); });

struct Refusal {
  const char* golden;
  const char* key;
  Json value;
  const char* words;
};

// A variant that changes the numbers and is not implemented.
TEST(FamilyRefusalsTest, VariantsAreRefusedByName) {
  const support::ScratchFolder folder;
  for (const Refusal& refusal : std::vector<Refusal>{
           {"cohere_full", "use_qk_norm", true, "use_qk_norm: true is not supported"},
           {"gemma3_text_full", "use_bidirectional_attention", true, "use_bidirectional_attention"},
           {"gemma2_full", "hidden_activation", "relu", "hidden_activation \"relu\""},
           {"phi3_full", "resid_pdrop", 0.1, "resid_pdrop is 0.1, only 0 is supported"},
           {"phi3_full", "embd_pdrop", 0.1, "embd_pdrop is 0.1, only 0 is supported"},
           {"phi3_longrope_long_full", "head_dim", 8, "short_factor must be a list of 4 numbers"},
           {"glm4_full", "partial_rotary_factor", 0.1, ""},
           {"olmo2_full", "attention_dropout", 0.1, "attention_dropout is 0.1"},
           {"starcoder2_full", "hidden_act", "silu", "hidden_act silu is not supported"}}) {
    Json config = Json::parse(
        std::ifstream(support::GoldenFolder(refusal.golden) + std::string("/config.json")));
    config[refusal.key] = refusal.value;
    folder.Write("config.json", config.dump());
    const auto read = ReadModelConfig(folder.path());
    if (*refusal.words == '\0') {  // the object's own value wins
      EXPECT_TRUE(read.ok()) << read.status();
      continue;
    }
    ASSERT_FALSE(read.ok()) << refusal.golden << " " << refusal.key;
    EXPECT_NE(read.status().ToString().find(refusal.words), std::string::npos) << read.status();
  }
}

// Published files of the family ask for it.
TEST(FamilyRefusalsTest, DropoutThatIsLeftOutIsAWarning) {
  Json config =
      Json::parse(std::ifstream(support::GoldenFolder("starcoder2_full") + "/config.json"));
  config["residual_dropout"] = 0.1;
  const support::ScratchFolder folder;
  folder.Write("config.json", config.dump());
  std::vector<std::string> warnings;
  ASSERT_TRUE(ReadModelConfig(folder.path(), &warnings).ok());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("residual_dropout 0.1 is not applied"), std::string::npos);
}

}  // namespace
}  // namespace coxswain::model
