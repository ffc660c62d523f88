// The text part of models that read images too: which keys say what it is.
#include "common/model/text_part.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/model/family.h"
#include "common/model/read/read_model_config.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::model {
namespace {

using Json = nlohmann::json;

class TextPartConfigTest : public testing::Test {
 protected:
  absl::StatusOr<ModelConfig> Read(const Json& config) {
    folder_.Write("config.json", config.dump());
    return ReadModelConfig(folder_.path(), &warnings_);
  }

  // As Gemma 3 4B is published. Source: google/gemma-3-4b-it, config.json.
  const Json gemma_ = {{"architectures", {"Gemma3ForConditionalGeneration"}},
                       {"model_type", "gemma3"},
                       {"image_token_index", 262144},
                       {"mm_tokens_per_image", 256},
                       {"text_config",
                        {{"hidden_size", 2560},
                         {"intermediate_size", 10240},
                         {"model_type", "gemma3_text"},
                         {"num_hidden_layers", 34},
                         {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}},
                         {"sliding_window", 1024}}},
                       {"vision_config", {{"model_type", "siglip_vision_model"}}}};
  const Json mistral_ = {{"architectures", {"Mistral3ForConditionalGeneration"}},
                         {"model_type", "mistral3"},
                         {"text_config",
                          {{"model_type", "mistral"},
                           {"vocab_size", 131072},
                           {"hidden_size", 5120},
                           {"intermediate_size", 32768},
                           {"num_hidden_layers", 40},
                           {"num_attention_heads", 32},
                           {"num_key_value_heads", 8},
                           {"head_dim", 128},
                           {"rms_norm_eps", 1e-5},
                           {"rope_theta", 1e9},
                           {"sliding_window", nullptr}}}};
  std::vector<std::string> warnings_;
  support::ScratchFolder folder_;
};

TEST_F(TextPartConfigTest, KeysThatGemmaLeavesOutAreThoseOfThe4BModel) {
  const auto config = Read(gemma_);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(warnings_.empty()) << warnings_[0];
  EXPECT_EQ(config->vocab_size, 262208);
  EXPECT_EQ(config->num_heads, 8);
  EXPECT_EQ(config->num_kv_heads, 4);
  EXPECT_EQ(config->head_dim, 256);
  EXPECT_TRUE(config->tie_embeddings);
  EXPECT_EQ(config->rope.type, "linear");
  EXPECT_EQ(config->window_rope->theta, 10000.0);
  EXPECT_EQ(config->layer_windows[4], 1024);
  EXPECT_EQ(config->layer_windows[5], 0);
}

TEST_F(TextPartConfigTest, MistralIsOfEitherKind) {
  auto config = Read(mistral_);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_FALSE(config->tie_embeddings);
  EXPECT_EQ(config->rope.theta, 1e9);
  Json other = mistral_;
  other["text_config"]["model_type"] = "ministral3";
  other["text_config"]["rope_parameters"] = {
      {"rope_type", "yarn"},   {"rope_theta", 1e6}, {"factor", 16.0},
      {"beta_fast", 32.0},     {"beta_slow", 1.0},  {"llama_4_scaling_beta", 0.1},
      {"mscale_all_dim", 1.0}, {"mscale", 1.0},     {"original_max_position_embeddings", 16384}};
  config = Read(other);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->rope.query_scale_beta, 0.1);
  other["text_config"]["model_type"] = "llama";
  EXPECT_NE(Read(other).status().message().find("text_config: model_type \"llama\""),
            std::string::npos);
}

// Source: transformers, where the whole model ties its head or does not.
TEST_F(TextPartConfigTest, TheWholeFileDecidesOverTheHeadAndQuantisation) {
  Json config = mistral_;
  config["tie_word_embeddings"] = true;
  config["text_config"]["tie_word_embeddings"] = false;
  EXPECT_TRUE(Read(config)->tie_embeddings);
  config["quantization_config"] = {{"quant_method", "fp8"}};
  EXPECT_NE(Read(config).status().message().find("quantization_config"), std::string::npos);
}

TEST_F(TextPartConfigTest, WithoutTheTextItIsNamed) {
  Json config = gemma_;
  config.erase("text_config");
  EXPECT_NE(Read(config).status().message().find("text_config is missing"), std::string::npos);
}

TEST_F(TextPartConfigTest, NamesAreThoseOfTransformersModules) {
  const auto config = Read(mistral_);
  ASSERT_TRUE(config.ok()) << config.status();
  const Outside outside = OutsideOf(*config);
  EXPECT_EQ(outside.layers, "model.language_model.layers.");
  EXPECT_EQ(outside.embedding.name, "model.language_model.embed_tokens.weight");
  EXPECT_EQ(outside.head.name, "lm_head.weight");
  EXPECT_TRUE(TextPartOf(*config).IsBeside("vision_tower.patch_conv.weight"));
  EXPECT_FALSE(TextPartOf(*config).IsBeside("language_model.lm_head.weight"));
}

}  // namespace
}  // namespace coxswain::model
