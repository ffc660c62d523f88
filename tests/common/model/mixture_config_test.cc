// The config.json of mixtures of experts.
#include <cmath>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/model/family.h"
#include "common/model/files/stacked_files.h"
#include "common/model/parameter_table.h"
#include "common/model/read/read_model_config.h"
#include "gtest/gtest.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::model {
namespace mixture_config_test {
namespace {

using Json = nlohmann::json;
using Layers = std::vector<int64_t>;

// What every family asks for.
Json Mixed(const char* architecture) {
  return {{"architectures", {architecture}}, {"vocab_size", 512},      {"hidden_size", 64},
          {"intermediate_size", 160},        {"num_hidden_layers", 4}, {"num_attention_heads", 4},
          {"num_key_value_heads", 2}};
}

Json Set(Json json, const char* key, Json value) {
  json[key] = std::move(value);
  return json;
}

absl::StatusOr<ModelConfig> ReadMixed(const Json& json,
                                      std::vector<std::string>* warnings = nullptr) {
  const support::ScratchFolder folder;
  folder.Write("config.json", json.dump());
  return ReadModelConfig(folder.path(), warnings);
}

// Without a warning.
ModelConfig MustReadMixed(const Json& json) {
  std::vector<std::string> warnings;
  const auto config = ReadMixed(json, &warnings);
  EXPECT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(warnings.empty()) << warnings.front();
  return config.ok() ? *config : ModelConfig{};
}

void ExpectRefusedMixed(const Json& json, const std::string& part) {
  const auto config = ReadMixed(json);
  ASSERT_FALSE(config.ok()) << json;
  EXPECT_NE(config.status().message().find(part), std::string::npos) << config.status();
}

TEST(MixtureConfigTest, Qwen2MoeAndItsDefaults) {
  const ModelConfig plain = MustReadMixed(Mixed("Qwen2MoeForCausalLM"));
  EXPECT_TRUE(plain.qkv_bias);
  EXPECT_FALSE(plain.output_bias);
  EXPECT_EQ(
      plain.mixture,
      (Mixture{
          .experts = 60, .chosen = 4, .width = 1408, .shared_width = 5632, .shared_gate = true}));
  Json json = Mixed("Qwen2MoeForCausalLM");
  json.update({{"qkv_bias", false},
               {"num_experts", 8},
               {"num_experts_per_tok", 3},
               {"moe_intermediate_size", 24},
               {"shared_expert_intermediate_size", 40},
               {"norm_topk_prob", true},
               {"decoder_sparse_step", 2},
               {"mlp_only_layers", {1}},
               {"output_router_logits", true},
               {"router_aux_loss_coef", 0.02}});
  const ModelConfig given = MustReadMixed(json);
  EXPECT_FALSE(given.qkv_bias);
  EXPECT_EQ(given.mixture, (Mixture{.experts = 8,
                                    .chosen = 3,
                                    .width = 24,
                                    .shared_width = 40,
                                    .shared_gate = true,
                                    .renormalise = true,
                                    .aux_loss = 0.02,
                                    .dense_layers = {0, 1, 2}}));
  json.erase("num_experts");
  json["num_local_experts"] = 8;  // transformers 5
  EXPECT_EQ(MustReadMixed(json), given);
  json.erase("intermediate_size");
  EXPECT_EQ(MustReadMixed(json).intermediate_size, 5632);
  ExpectRefusedMixed(Set(json, "num_experts_per_tok", 9), "num_experts_per_tok 9 of num_experts 8");
}

// The even ones of the first max_window_layers.
TEST(MixtureConfigTest, WindowsOfQwen2Moe) {
  Json json = Mixed("Qwen2MoeForCausalLM");
  json.update({{"use_sliding_window", true}, {"sliding_window", 16}, {"max_window_layers", 3}});
  EXPECT_EQ(MustReadMixed(json).layer_windows, (Layers{16, 0, 16, 0}));
  EXPECT_EQ(MustReadMixed(Set(json, "max_window_layers", 2)).layer_windows, (Layers{16, 0, 0, 0}));
  const Json types = {"full_attention", "sliding_attention", "full_attention", "full_attention"};
  EXPECT_EQ(MustReadMixed(Set(json, "layer_types", types)).layer_windows, (Layers{0, 16, 0, 0}));
  json.update({{"use_sliding_window", false}, {"sliding_window", 0}});  // as it is saved
  EXPECT_EQ(MustReadMixed(json).layer_windows, (Layers{0, 0, 0, 0}));
}

// A shared expert stands beside, its gate behind its MLP.
TEST(MixtureConfigTest, Qwen2MoeNamesItsTensors) {
  const Block block = ArchitectureOf(MustReadMixed(Mixed("Qwen2MoeForCausalLM"))).blocks[0];
  const auto shape = [&](const std::string& name) {
    for (const TensorSpec& tensor : block.tensors) {
      if (tensor.name == name) return Layers{tensor.batch, tensor.rows, tensor.cols};
    }
    return Layers{};
  };
  EXPECT_EQ(shape("mlp.shared_expert.gate_proj.weight"), (Layers{1, 5632, 64}));
  EXPECT_EQ(shape("mlp.shared_expert.down_proj.weight"), (Layers{1, 64, 5632}));
  EXPECT_EQ(shape("mlp.shared_expert_gate.weight"), (Layers{1, 1, 64}));
  EXPECT_EQ(shape("mlp.experts.gate_up_proj"), (Layers{60, 2816, 64}));
  EXPECT_TRUE(std::holds_alternative<SigmoidGateOp>(block.ops[block.ops.size() - 2]));
}

TEST(MixtureConfigTest, Glm4MoeAndItsDefaults) {
  Json json = Mixed("Glm4MoeForCausalLM");
  json["head_dim"] = 32;
  const ModelConfig plain = MustReadMixed(json);
  EXPECT_FALSE(plain.qkv_bias || plain.output_bias || plain.qk_norm);
  EXPECT_EQ(plain.rms_norm_eps, 1e-5);
  EXPECT_EQ(plain.rope.rotated, 16);
  EXPECT_FALSE(plain.rope.interleaved);
  EXPECT_EQ(plain.layer_windows, (Layers{0, 0, 0, 0}));
  EXPECT_EQ(plain.mixture, (Mixture{.experts = 128,
                                    .chosen = 8,
                                    .width = 1408,
                                    .shared_width = 1408,
                                    .score = "sigmoid",
                                    .renormalise = true,
                                    .dense_layers = {0}}));
  json.update({{"attention_bias", true},
               {"use_qk_norm", true},
               {"n_routed_experts", 12},
               {"n_shared_experts", 2},
               {"moe_intermediate_size", 24},
               {"num_experts_per_tok", 3},
               {"n_group", 4},
               {"topk_group", 2},
               {"norm_topk_prob", false},
               {"routed_scaling_factor", 2.5},
               {"first_k_dense_replace", 0},
               {"num_nextn_predict_layers", 1},
               {"rope_theta", 1e6},
               {"partial_rotary_factor", 0.25}});
  const ModelConfig given = MustReadMixed(json);
  EXPECT_TRUE(given.qkv_bias && given.qk_norm);
  EXPECT_FALSE(given.output_bias);  // never
  EXPECT_EQ(given.mixture, (Mixture{.experts = 12,
                                    .chosen = 3,
                                    .width = 24,
                                    .shared_width = 48,
                                    .score = "sigmoid",
                                    .groups = 4,
                                    .top_groups = 2,
                                    .scale = 2.5}));
  Json v5 = json;  // transformers 5
  for (const char* key : {"rope_theta", "partial_rotary_factor", "n_routed_experts"}) v5.erase(key);
  v5["num_local_experts"] = 12;
  v5["rope_parameters"] = {
      {"rope_type", "default"}, {"rope_theta", 1e6}, {"partial_rotary_factor", 0.25}};
  EXPECT_EQ(MustReadMixed(v5), given);
  const ModelConfig alone = MustReadMixed(Set(json, "n_shared_experts", 0));
  EXPECT_EQ(alone.mixture.shared_width, 0);
  ExpectRefusedMixed(Set(json, "num_experts_per_tok", 7), "num_experts_per_tok 7 of n_routed");
  ExpectRefusedMixed(Set(json, "n_group", 5), "n_group 5");
  ExpectRefusedMixed(Set(json, "n_group", 12), "n_group 12");  // the two best of one
  ExpectRefusedMixed(Set(json, "topk_group", 5), "topk_group 5");
}

TEST(MixtureConfigTest, FurtherLayersOfGlmAreBeside) {
  const ModelConfig glm = MustReadMixed(Mixed("Glm4MoeForCausalLM"));
  EXPECT_TRUE(IsBeside(glm, "model.layers.4.mlp.gate.weight"));
  EXPECT_TRUE(IsBeside(glm, "model.layers.12.eh_proj.weight"));
  EXPECT_FALSE(IsBeside(glm, "model.layers.3.eh_proj.weight"));
  EXPECT_FALSE(IsBeside(glm, "model.layers.weight"));
  EXPECT_FALSE(IsBeside(glm, "lm_head.weight"));
  EXPECT_FALSE(IsBeside(MustReadMixed(Mixed("Qwen3MoeForCausalLM")), "model.layers.4.x.weight"));
}

// Extents of latent attention small enough to read, and the keys that published files have.
Json LatentKeys(const char* architecture) {
  Json json = Mixed(architecture);
  json.update({{"num_key_value_heads", 4},
               {"q_lora_rank", nullptr},
               {"kv_lora_rank", 16},
               {"qk_nope_head_dim", 12},
               {"qk_rope_head_dim", 8},
               {"v_head_dim", 10},
               {"head_dim", 8},
               {"qk_head_dim", 20},
               {"num_nextn_predict_layers", 1},
               {"pretraining_tp", 1},
               {"output_router_logits", false},
               {"scoring_func", "sigmoid"},
               {"topk_method", "noaux_tc"}});
  return json;
}

TEST(MixtureConfigTest, DeepseekV3AndItsDefaults) {
  Json json = Mixed("DeepseekV3ForCausalLM");
  json.erase("num_key_value_heads");
  const ModelConfig plain = MustReadMixed(json);
  EXPECT_EQ(
      plain.latent,
      (LatentAttention{.q_rank = 1536, .kv_rank = 512, .nope = 128, .rope = 64, .value = 128}));
  EXPECT_EQ(plain.head_dim, 192);
  EXPECT_EQ(plain.num_kv_heads, 4);
  EXPECT_EQ(plain.rope.rotated, 64);
  EXPECT_TRUE(plain.rope.interleaved);
  EXPECT_FALSE(plain.qkv_bias || plain.output_bias);
  EXPECT_EQ(plain.rms_norm_eps, 1e-6);
  EXPECT_EQ(plain.attention_scale, 0);
  EXPECT_EQ(plain.mixture, (Mixture{.experts = 256,
                                    .chosen = 8,
                                    .width = 2048,
                                    .shared_width = 2048,
                                    .score = "sigmoid",
                                    .groups = 8,
                                    .top_groups = 4,
                                    .renormalise = true,
                                    .scale = 2.5,
                                    .dense_layers = {0, 1, 2}}));
  Json given = LatentKeys("DeepseekV3ForCausalLM");
  given.update(
      {{"rope_interleave", false}, {"first_k_dense_replace", 1}, {"attention_bias", true}});
  const ModelConfig other = MustReadMixed(given);
  EXPECT_EQ(other.latent, (LatentAttention{.kv_rank = 16, .nope = 12, .rope = 8, .value = 10}));
  EXPECT_EQ(other.head_dim, 20);
  EXPECT_EQ(other.rope.rotated, 8);
  EXPECT_FALSE(other.rope.interleaved);
  EXPECT_TRUE(other.output_bias);
  EXPECT_EQ(other.mixture.dense_layers, (Layers{0}));
  ExpectRefusedMixed(Set(given, "num_key_value_heads", 2), "num_key_value_heads 2");
  ExpectRefusedMixed(Set(given, "qk_rope_head_dim", 7), "qk_rope_head_dim 7 is odd");
}

// YaRN multiplies scores by m^2; what turns is multiplied by the quotient of both, here 1.
TEST(MixtureConfigTest, DeepseekV3GrowsScoresUnderYarn) {
  Json json = LatentKeys("DeepseekV3ForCausalLM");
  json["rope_scaling"] = {{"type", "yarn"},
                          {"factor", 40.0},
                          {"original_max_position_embeddings", 4096},
                          {"mscale", 1.0},
                          {"mscale_all_dim", 1.0}};
  const ModelConfig config = MustReadMixed(json);
  const double m = 0.1 * std::log(40.0) + 1;
  EXPECT_DOUBLE_EQ(config.attention_scale, m * m / std::sqrt(20.0));
  EXPECT_EQ(config.rope.attention_factor, 1.0);
  json["rope_scaling"]["mscale_all_dim"] = 0;
  const ModelConfig without = MustReadMixed(json);
  EXPECT_EQ(without.attention_scale, 0);
  EXPECT_DOUBLE_EQ(without.rope.attention_factor, m);
}

TEST(MixtureConfigTest, Glm4MoeLiteAndItsDefaults) {
  Json json = Mixed("Glm4MoeLiteForCausalLM");
  json.update({{"num_key_value_heads", 4}, {"first_k_dense_replace", 3}});  // not read
  const ModelConfig plain = MustReadMixed(json);
  EXPECT_EQ(
      plain.latent,
      (LatentAttention{.q_rank = 768, .kv_rank = 512, .nope = 192, .rope = 64, .value = 256}));
  EXPECT_EQ(plain.rms_norm_eps, 1e-5);
  EXPECT_EQ(plain.mixture, (Mixture{.experts = 64,
                                    .chosen = 4,
                                    .width = 1536,
                                    .shared_width = 1536,
                                    .score = "sigmoid",
                                    .renormalise = true,
                                    .scale = 1.8,
                                    .dense_layers = {0}}));
  json = LatentKeys("Glm4MoeLiteForCausalLM");
  json["mlp_layer_types"] = {"sparse", "dense", "sparse", "dense"};
  EXPECT_EQ(MustReadMixed(json).mixture.dense_layers, (Layers{1, 3}));
  ExpectRefusedMixed(Set(json, "mlp_layer_types", {"dense"}),
                     "mlp_layer_types must be a list of 4");
  ExpectRefusedMixed(Set(json, "mlp_layer_types", {"dense", "moe", "dense", "dense"}),
                     "mlp_layer_types[1] is \"moe\"");
}

TEST(MixtureConfigTest, LatentAttentionNamesItsTensors) {
  Json json = LatentKeys("DeepseekV3ForCausalLM");
  json["attention_bias"] = true;
  const auto shapes = [](const Json& config) {
    std::string text;
    const Architecture model = ArchitectureOf(MustReadMixed(config));
    for (const TensorSpec& tensor : model.blocks[0].tensors) {
      if (!tensor.name.starts_with("self_attn.")) continue;
      text += tensor.name.substr(10) + " " + std::to_string(tensor.rows) + "x" +
              std::to_string(tensor.cols) + "; ";
    }
    return text;
  };
  const std::string keys =
      "kv_a_proj_with_mqa.weight 24x64; kv_a_proj_with_mqa.bias 24x1; kv_a_layernorm.weight 16x1; "
      "kv_b_proj.weight 88x16; o_proj.weight 64x40; o_proj.bias 64x1; ";
  EXPECT_EQ(shapes(json), "q_proj.weight 80x64; " + keys);
  json["q_lora_rank"] = 6;
  EXPECT_EQ(shapes(json),
            "q_a_proj.weight 6x64; q_a_proj.bias 6x1; q_a_layernorm.weight 6x1; "
            "q_b_proj.weight 80x6; " +
                keys);
  EXPECT_TRUE(IsBeside(MustReadMixed(json), "model.layers.4.eh_proj.weight"));
}

TEST(MixtureConfigTest, GptOssAndItsDefaults) {
  const ModelConfig plain = MustReadMixed(Mixed("GptOssForCausalLM"));
  EXPECT_TRUE(plain.qkv_bias && plain.output_bias);
  EXPECT_EQ(plain.head_dim, 64);
  EXPECT_EQ(plain.rms_norm_eps, 1e-5);
  EXPECT_EQ(plain.layer_windows, (Layers{128, 0, 128, 0}));
  EXPECT_EQ(plain.rope.type, "yarn");
  EXPECT_EQ(plain.rope.theta, 150000.0);
  EXPECT_EQ(plain.rope.factor, 32.0);
  EXPECT_EQ(plain.rope.original_max_position, 4096);
  EXPECT_FALSE(plain.rope.truncate);
  EXPECT_EQ(
      plain.mixture,
      (Mixture{
          .experts = 128, .chosen = 4, .width = 160, .renormalise = true, .router_bias = true}));
  Json json = Mixed("GptOssForCausalLM");
  json.update({{"head_dim", 32},
               {"num_local_experts", 8},
               {"num_experts_per_tok", 2},
               {"attention_bias", false},
               {"sliding_window", 16},
               {"swiglu_alpha", 1.702},
               {"swiglu_limit", 7.0},
               {"output_router_logits", true},
               {"rope_theta", 1000.0},
               {"initial_context_length", 4096}});
  const ModelConfig given = MustReadMixed(json);
  EXPECT_FALSE(given.qkv_bias || given.output_bias);
  EXPECT_EQ(given.rope.theta, 1000.0);
  EXPECT_EQ(given.layer_windows, (Layers{16, 0, 16, 0}));
  EXPECT_EQ(given.mixture.experts, 8);
  EXPECT_EQ(given.mixture.chosen, 2);
  EXPECT_EQ(given.mixture.aux_loss, 0.001);
  Json older = json;
  older.erase("num_experts_per_tok");
  older["experts_per_token"] = 2;
  EXPECT_EQ(MustReadMixed(older), given);
  EXPECT_EQ(given.quantization, Quantization::kNone);
  json["quantization_config"] = {{"quant_method", "mxfp4"}};
  EXPECT_EQ(MustReadMixed(json).quantization, Quantization::kMxfp4);
  ExpectRefusedMixed(Set(json, "swiglu_limit", 5.0), "swiglu_limit is 5, only 7 is supported");
  ExpectRefusedMixed(Set(json, "swiglu_alpha", 1.5), "swiglu_alpha is 1.5");
}

// Stacks [in, out] whose rows of gate and up take turns, and biases.
TEST(MixtureConfigTest, GptOssNamesItsTensorsAndTheirFiles) {
  const Architecture model = ArchitectureOf(MustReadMixed(Mixed("GptOssForCausalLM")));
  std::vector<std::string> names;
  for (const Parameter& parameter : BaseParameterTable(model)) {
    if (parameter.layer != 1) continue;
    for (const StackedFile& file : StackedFilesOf(model, parameter)) {
      names.push_back(file.name);
      const bool up = file.name.find("gate_up") != std::string::npos;
      const Layers matrix = up ? Layers{128, 64, 320} : Layers{128, 160, 64};
      const Layers vector = up ? Layers{128, 320} : Layers{128, 64};
      EXPECT_EQ(file.shape(), parameter.cols == 1 ? vector : matrix) << file.name;
    }
  }
  const std::string prefix = "model.layers.1.mlp.experts.";
  EXPECT_EQ(names, (std::vector<std::string>{prefix + "gate_up_proj", prefix + "gate_up_proj_bias",
                                             prefix + "down_proj", prefix + "down_proj_bias"}));
}

}  // namespace
}  // namespace mixture_config_test
}  // namespace coxswain::model
