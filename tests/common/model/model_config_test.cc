#include "common/model/read/read_model_config.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include <nlohmann/json.hpp>

#include "common/model/family.h"
#include "common/plan/plan.h"
#include "gtest/gtest.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::model {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// A small config of either dialect that a test then changes.
Json Qwen2() {
  return Json::parse(R"({"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2",
    "vocab_size": 512, "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_act": "silu", "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
    "sliding_window": 32, "max_window_layers": 2, "use_sliding_window": false})");
}

Json Llama() {
  Json config = Qwen2();
  config["architectures"] = {"LlamaForCausalLM"};
  config["model_type"] = "llama";
  return config;
}

absl::StatusOr<ModelConfig> Read(const std::string& text) {
  const support::ScratchFolder folder;
  folder.Write("config.json", text);
  return ReadModelConfig(folder.path());
}

ModelConfig MustRead(const Json& json) {
  const auto config = Read(json.dump());
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? *config : ModelConfig{};
}

void ExpectRefused(const Json& json, const std::string& part,
                   absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  const auto config = Read(json.dump());
  ASSERT_FALSE(config.ok()) << json;
  EXPECT_EQ(config.status().code(), code);
  const std::string message(config.status().message());
  EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_NE(message.find("config.json"), std::string::npos) << message;
}

Json With(Json base, const std::string& key, Json value) {
  base[key] = std::move(value);
  return base;
}

Json Without(Json base, const std::string& key) {
  base.erase(key);
  return base;
}

TEST(ModelConfigTest, ReadsQwen2) {
  const ModelConfig config = MustRead(Qwen2());
  EXPECT_EQ(config.architecture, "Qwen2ForCausalLM");
  EXPECT_EQ(config.vocab_size, 512);
  EXPECT_EQ(config.hidden_size, 64);
  EXPECT_EQ(config.intermediate_size, 160);
  EXPECT_EQ(config.num_layers, 3);
  EXPECT_EQ(config.num_heads, 4);
  EXPECT_EQ(config.num_kv_heads, 2);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_TRUE(config.tie_embeddings);
  EXPECT_TRUE(config.qkv_bias);  // though attention_bias is absent
  EXPECT_FALSE(config.output_bias);
  EXPECT_FALSE(config.qk_norm);
  EXPECT_EQ(config.rope.type, "default");
  EXPECT_EQ(config.rope.theta, 1e6);
  EXPECT_EQ(config.layer_windows, (std::vector<int64_t>{0, 0, 0}));
}

// Invariant model-2.
TEST(ModelConfigTest, BothDialectsGiveTheSameModel) {
  Json v5 = Without(Without(Qwen2(), "rope_theta"), "torch_dtype");
  v5["rope_parameters"] = {{"rope_theta", 1000000.0}, {"rope_type", "default"}};
  v5["dtype"] = "bfloat16";
  v5["layer_types"] = {"full_attention", "full_attention", "full_attention"};
  EXPECT_EQ(MustRead(v5), MustRead(Qwen2()));

  const Json scaling = {{"rope_type", "llama3"},
                        {"factor", 32.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 8192}};
  Json llama5 = Without(Llama(), "rope_theta");
  llama5["rope_parameters"] = scaling;
  llama5["rope_parameters"]["rope_theta"] = 1000000.0;
  const ModelConfig config = MustRead(With(Llama(), "rope_scaling", scaling));
  EXPECT_EQ(MustRead(llama5), config);
  EXPECT_EQ(config.rope.type, "llama3");
  EXPECT_EQ(config.rope.factor, 32.0);
  EXPECT_EQ(config.rope.low_freq_factor, 1.0);
  EXPECT_EQ(config.rope.high_freq_factor, 4.0);
  EXPECT_EQ(config.rope.original_max_position, 8192);
  EXPECT_EQ(config.rope.theta, 1e6);
  Json older = scaling;  // before rope_type there was type
  older.erase("rope_type");
  older["type"] = "llama3";
  EXPECT_EQ(MustRead(With(Llama(), "rope_scaling", older)), config);
}

// A rotation in either spelling.
ModelConfig Rotated(const Json& scaling) {
  Json v4 = With(With(Llama(), "max_position_embeddings", 256), "rope_scaling", scaling);
  Json v5 = Without(With(Llama(), "max_position_embeddings", 256), "rope_theta");
  v5["rope_parameters"] = scaling;
  v5["rope_parameters"]["rope_theta"] = 1000000.0;
  const ModelConfig config = MustRead(v4);
  EXPECT_EQ(MustRead(v5), config);
  Json older = scaling;
  older.erase("rope_type");
  older["type"] = scaling["rope_type"];
  EXPECT_EQ(MustRead(With(v4, "rope_scaling", older)), config);
  return config;
}

TEST(ModelConfigTest, RotationsThatAreScaled) {
  const ModelConfig linear = Rotated({{"rope_type", "linear"}, {"factor", 4.0}});
  EXPECT_EQ(linear.rope.type, "linear");
  EXPECT_EQ(linear.rope.factor, 4.0);
  const ModelConfig dynamic = Rotated({{"rope_type", "dynamic"}, {"factor", 2.0}});
  EXPECT_EQ(dynamic.rope.original_max_position, 256);

  Json scaling = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 64}};
  const Rope yarn = Rotated(scaling).rope;
  EXPECT_EQ(yarn.original_max_position, 64);
  EXPECT_EQ(yarn.beta_fast, 32.0);
  EXPECT_EQ(yarn.beta_slow, 1.0);
  EXPECT_TRUE(yarn.truncate);
  EXPECT_DOUBLE_EQ(yarn.attention_factor, 0.1 * std::log(4.0) + 1);
  scaling["mscale"] = 2.0;
  EXPECT_EQ(Rotated(scaling).rope, yarn);  // counts beside mscale_all_dim alone
  scaling["mscale_all_dim"] = 0.5;
  EXPECT_DOUBLE_EQ(Rotated(scaling).rope.attention_factor,
                   (0.2 * std::log(4.0) + 1) / (0.05 * std::log(4.0) + 1));
  scaling["attention_factor"] = 0.75;
  scaling["truncate"] = false;
  scaling["beta_fast"] = 16;
  const Rope given = Rotated(scaling).rope;
  EXPECT_EQ(given.attention_factor, 0.75);
  EXPECT_EQ(given.beta_fast, 16.0);
  EXPECT_FALSE(given.truncate);
  scaling.erase("original_max_position_embeddings");
  EXPECT_EQ(Rotated(scaling).rope.original_max_position, 256);
  ExpectRefused(With(Llama(), "rope_scaling", {{"type", "linear"}}), "factor is missing");
}

TEST(ModelConfigTest, LayersThatDoNotRotate) {
  Json config = With(Llama(), "architectures", Json::array({"SmolLM3ForCausalLM"}));
  config["num_hidden_layers"] = 9;
  using Layers = std::vector<int64_t>;
  EXPECT_EQ(MustRead(config).unrotated_layers, (Layers{3, 7}));
  EXPECT_TRUE(MustRead(Without(config, "tie_word_embeddings")).tie_embeddings);
  EXPECT_EQ(MustRead(With(config, "no_rope_layer_interval", 2)).unrotated_layers,
            (Layers{1, 3, 5, 7}));
  const Json listed = With(config, "no_rope_layers", {0, 1, 1, 1, 1, 1, 1, 1, 0});
  EXPECT_EQ(MustRead(listed).unrotated_layers, (Layers{0, 8}));
  EXPECT_EQ(MustRead(With(listed, "use_sliding_window", true)).layer_windows,
            (Layers{32, 0, 0, 0, 0, 0, 0, 0, 32}));
  ExpectRefused(With(config, "no_rope_layers", {1}), "no_rope_layers must be a list of 9 entries");
}

TEST(ModelConfigTest, ScalesOfAModel) {
  Json config = With(Llama(), "architectures", Json::array({"GraniteForCausalLM"}));
  const ModelConfig plain = MustRead(config);
  EXPECT_EQ(plain.embedding_scale, 1.0);
  EXPECT_EQ(plain.score_scale(), 1.0);
  EXPECT_EQ(plain.logit_scale, 1.0);
  EXPECT_EQ(MustRead(Llama()).score_scale(), 0.25);
  config["embedding_multiplier"] = 12.0;
  config["attention_multiplier"] = 0.015625;
  config["logits_scaling"] = 8.0;
  config["residual_multiplier"] = 0.25;
  const ModelConfig scaled = MustRead(config);
  EXPECT_EQ(scaled.embedding_scale, 48.0);
  EXPECT_EQ(scaled.score_scale(), 0.015625);
  EXPECT_EQ(scaled.logit_scale, 0.125);
  EXPECT_EQ(scaled.rms_norm_eps, 1.6e-5);
  ExpectRefused(With(config, "residual_multiplier", 0), "residual_multiplier");
}

TEST(ModelConfigTest, GemmaInEitherSpelling) {
  Json config = With(Qwen2(), "architectures", Json::array({"GemmaForCausalLM"}));
  config.erase("tie_word_embeddings");
  config["hidden_act"] = "gelu_pytorch_tanh";
  const ModelConfig gemma = MustRead(config);
  EXPECT_TRUE(gemma.tie_embeddings && gemma.norm_weights_from_one && gemma.embedding_scale_rounded);
  EXPECT_EQ(gemma.embedding_scale, 8.0);
  EXPECT_EQ(gemma.activation, "gelu_tanh");
  EXPECT_EQ(MustRead(With(config, "hidden_act", "gelu")), gemma);
  EXPECT_EQ(MustRead(With(With(config, "hidden_act", "gelu"), "hidden_activation", nullptr)),
            gemma);
  ExpectRefused(With(config, "hidden_activation", "silu"), "hidden_activation \"silu\"");
  EXPECT_EQ(MustRead(With(Llama(), "hidden_act", "gelu")).activation, "gelu");
}

TEST(ModelConfigTest, NamesKeysThatNobodyKnows) {
  const support::ScratchFolder folder;
  const auto warnings_of = [&](const Json& json) {
    folder.Write("config.json", json.dump());
    std::vector<std::string> warnings;
    EXPECT_TRUE(ReadModelConfig(folder.path(), &warnings).ok());
    return warnings;
  };
  EXPECT_TRUE(warnings_of(Qwen2()).empty());
  const auto warnings = warnings_of(With(With(Qwen2(), "logit_scale", 2.0), "use_cache", false));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("Qwen2ForCausalLM and not read: logit_scale;"), std::string::npos);
}

TEST(ModelConfigTest, NullsMeanTheDerivedValue) {
  Json config = Llama();
  for (const char* key : {"head_dim", "num_key_value_heads", "rope_scaling", "sliding_window"}) {
    config[key] = nullptr;
  }
  EXPECT_EQ(MustRead(config).head_dim, 16);
  EXPECT_EQ(MustRead(config).num_kv_heads, 4);
  EXPECT_EQ(MustRead(With(Llama(), "head_dim", 24)).head_dim, 24);
}

TEST(ModelConfigTest, BiasesAreThoseOfTheFamily) {
  const ModelConfig plain = MustRead(Llama());
  EXPECT_FALSE(plain.qkv_bias || plain.output_bias || plain.mlp_bias);
  const ModelConfig biased =
      MustRead(With(With(Llama(), "attention_bias", true), "mlp_bias", true));
  EXPECT_TRUE(biased.qkv_bias && biased.output_bias && biased.mlp_bias);
  Json qwen3 = With(Qwen2(), "architectures", Json::array({"Qwen3ForCausalLM"}));
  EXPECT_TRUE(MustRead(qwen3).qk_norm);
  EXPECT_FALSE(MustRead(qwen3).qkv_bias);
  EXPECT_TRUE(MustRead(With(qwen3, "attention_bias", true)).output_bias);
}

TEST(ModelConfigTest, WindowsOfEachFamily) {
  using Windows = std::vector<int64_t>;
  EXPECT_EQ(MustRead(With(Qwen2(), "use_sliding_window", true)).layer_windows, (Windows{0, 0, 32}));
  EXPECT_EQ(MustRead(Llama()).layer_windows, (Windows{0, 0, 0}));
  const Json mistral = With(Qwen2(), "architectures", Json::array({"MistralForCausalLM"}));
  EXPECT_EQ(MustRead(mistral).layer_windows, (Windows{32, 32, 32}));
  EXPECT_EQ(MustRead(With(mistral, "sliding_window", nullptr)).layer_windows, (Windows{0, 0, 0}));
  EXPECT_EQ(MustRead(Without(mistral, "sliding_window")).layer_windows,
            (Windows{4096, 4096, 4096}));
  const Json mixed = With(With(Qwen2(), "use_sliding_window", true), "layer_types",
                          {"sliding_attention", "full_attention", "full_attention"});
  EXPECT_EQ(MustRead(mixed).layer_windows, (Windows{32, 0, 0}));
  ExpectRefused(With(mixed, "use_sliding_window", false), "layer_types[0]");
  ExpectRefused(With(mixed, "layer_types", {"full_attention"}), "3 entries");
  ExpectRefused(With(mixed, "layer_types", {"chunked", "full_attention", "full_attention"}),
                "layer_types[0]");
}

TEST(ModelConfigTest, ModelTypeDecidesWhenArchitecturesIsAbsent) {
  EXPECT_EQ(MustRead(Without(Qwen2(), "architectures")).architecture, "Qwen2ForCausalLM");
}

TEST(ModelConfigTest, RefusesUnknownArchitectureNamingTheSupportedOnes) {
  const Json mamba = With(Qwen2(), "architectures", Json::array({"MambaForCausalLM"}));
  ExpectRefused(mamba, "\"MambaForCausalLM\" is not supported", absl::StatusCode::kUnimplemented);
  ExpectRefused(mamba,
                "Glm4MoeForCausalLM, Glm4MoeLiteForCausalLM, GptOssForCausalLM, "
                "GraniteForCausalLM, InternLM2ForCausalLM, "
                "LlamaForCausalLM, Ministral3ForCausalLM, MistralForCausalLM, "
                "Mistral3ForConditionalGeneration, "
                "MixtralForCausalLM, Olmo2ForCausalLM, Phi3ForCausalLM, Qwen2ForCausalLM, "
                "Qwen2MoeForCausalLM, Qwen3ForCausalLM, Qwen3MoeForCausalLM",
                absl::StatusCode::kUnimplemented);
}

// Invariant model-1.
TEST(ModelConfigTest, RefusesWhatIsNotImplemented) {
  ExpectRefused(With(Qwen2(), "hidden_act", "relu2"), "hidden_act \"relu2\"");
  ExpectRefused(With(Qwen2(), "quantization_config", {{"quant_method", "fp8"}}),
                "quant_method \"fp8\"");
  ExpectRefused(With(Qwen2(), "quantization_config",
                     {{"quant_method", "bitsandbytes"}, {"load_in_4bit", true}}),
                "bnb_4bit_quant_type \"fp4\"");  // its default
  ExpectRefused(With(Qwen2(), "quantization_config", {{"quant_method", "bitsandbytes"}}),
                "neither load_in_4bit nor load_in_8bit");
  ExpectRefused(With(Qwen2(), "attention_dropout", 0.1), "attention_dropout is 0.1");
  ExpectRefused(With(Qwen2(), "partial_rotary_factor", 0.5), "partial_rotary_factor");
  ExpectRefused(With(Qwen2(), "rope_scaling", {{"type", "ntk"}, {"factor", 2.0}}),
                "rope type \"ntk\" is not supported; supported: default");
  ExpectRefused(With(Qwen2(), "rope_parameters", {{"full_attention", {{"rope_theta", 1.0}}}}),
                "per layer type");
}

// Reading dequantises them: the model is not quantised.
TEST(ModelConfigTest, TakesFp8InBlocksOfDeepSeeksSize) {
  const Json settings = {{"quant_method", "fp8"},
                         {"fmt", "e4m3"},
                         {"activation_scheme", "dynamic"},
                         {"weight_block_size", {128, 128}}};
  EXPECT_EQ(MustRead(With(Qwen2(), "quantization_config", settings)).quantization,
            Quantization::kNone);
  for (const auto& [key, value] :
       {std::pair<const char*, Json>{"weight_block_size", {64, 128}}, {"fmt", "e5m2"}}) {
    ExpectRefused(With(Qwen2(), "quantization_config", With(settings, key, value)),
                  "fp8 of fmt e4m3 with weight_block_size [128, 128]");
  }
}

TEST(ModelConfigTest, ReadsHowBitsandbytesHasQuantised) {
  Json settings = {{"quant_method", "bitsandbytes"},
                   {"load_in_4bit", true},
                   {"bnb_4bit_quant_type", "nf4"},
                   {"bnb_4bit_use_double_quant", true}};
  const auto format = [&] { return MustRead(With(Qwen2(), "quantization_config", settings)); };
  EXPECT_EQ(format().quantization, Quantization::kNf4Double);
  settings["bnb_4bit_use_double_quant"] = false;
  EXPECT_EQ(format().quantization, Quantization::kNf4);
  settings = {{"quant_method", "bitsandbytes"}, {"load_in_8bit", true}, {"load_in_4bit", false}};
  EXPECT_EQ(format().quantization, Quantization::kInt8);
  EXPECT_EQ(MustRead(Qwen2()).quantization, Quantization::kNone);
}

TEST(ModelConfigTest, NamesTheKeyThatIsMissingOrWrong) {
  for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                          "num_attention_heads"}) {
    ExpectRefused(Without(Qwen2(), key), std::string(key) + " is missing");
    ExpectRefused(With(Qwen2(), key, 0), std::string(key) + " is 0");
    ExpectRefused(With(Qwen2(), key, "8"), std::string(key) + " is \"8\", expected an integer");
    ExpectRefused(With(Qwen2(), key, 4294967296), std::string(key) + " is 4294967296");
  }
  ExpectRefused(With(Qwen2(), "rms_norm_eps", 0), "rms_norm_eps");
  ExpectRefused(With(Qwen2(), "rope_theta", -1), "rope_theta");
  ExpectRefused(With(Qwen2(), "tie_word_embeddings", 1), "tie_word_embeddings");
  ExpectRefused(With(Qwen2(), "num_key_value_heads", 3), "not a multiple");
  ExpectRefused(With(Qwen2(), "head_dim", 15), "head_dim 15 is odd");
  ExpectRefused(With(Qwen2(), "hidden_size", 66), "hidden_size 66");
  ExpectRefused(With(Llama(), "rope_scaling", {{"rope_type", "llama3"}}), "factor is missing");
  ExpectRefused(Json::array(), "not a JSON object");
  EXPECT_EQ(Read("{").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ModelConfigTest, MissingFileIsNotFoundAndNamed) {
  const auto status = ReadModelConfig(testing::TempDir() + "/nowhere").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(status.ToString().find("nowhere/config.json"), std::string::npos);
}

// Every published config at hand is read, or refused by its architecture's name.
TEST(ModelConfigTest, PublishedConfigs) {
  const char* shared = std::getenv("COXSWAIN_SHARED");
  const fs::path root = fs::path(shared != nullptr ? shared : "../shared") / "data/configs";
  if (!fs::exists(root)) GTEST_SKIP() << "needs ../shared/data/configs";
  int read = 0, refused = 0;
  for (const auto& entry : fs::directory_iterator(root)) {
    std::vector<std::string> warnings;
    const auto config = ReadModelConfig(entry.path().string(), &warnings);
    const Json json = Json::parse(std::ifstream(entry.path() / "config.json"));
    const std::string architecture = json["architectures"][0];
    const auto& families = Families();
    const bool supported = std::any_of(families.begin(), families.end(), [&](const Family* family) {
      return family->architecture == architecture;
    });
    if (supported) {
      EXPECT_TRUE(config.ok()) << entry.path() << config.status();
      EXPECT_TRUE(warnings.empty()) << warnings[0];
      ++read;
    } else {
      EXPECT_EQ(config.status().code(), absl::StatusCode::kUnimplemented) << entry.path();
      EXPECT_NE(config.status().ToString().find(architecture), std::string::npos);
      ++refused;
    }
  }
  EXPECT_GE(read, 10);
  EXPECT_GE(refused, 2);
}

}  // namespace
}  // namespace coxswain::model
