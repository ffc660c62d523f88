// Families of one architecture each, with experts.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/model/families/families.h"
#include "common/model/read/read_decoder.h"
#include "common/model/read/read_latent.h"
#include "common/model/read/read_mixture.h"
#include "common/model/read/read_rope.h"

namespace coxswain::model {

// Latent attention, and experts by sigmoid in groups behind some dense layers, an MLP beside them.
// Source: transformers modeling_deepseek_v3, configuration_deepseek_v3.

namespace {

void ReadDeepseekV3(ConfigKeys& keys, ModelConfig* config) {
  const LatentAttention latent{
      .q_rank = 1536, .kv_rank = 512, .nope = 128, .rope = 64, .value = 128};
  if (!ReadLatentDecoder(keys, latent, config)) return;
  ReadSigmoidRouter(
      keys,
      {.experts = 256, .chosen = 8, .width = 2048, .groups = 8, .top_groups = 4, .scale = 2.5},
      &config->mixture);
  config->mixture.dense_layers = ReadFirstDense(keys, config->num_layers, 3);
}

Block DeepseekBlock(const ModelConfig& config, int64_t layer) {
  return LatentExpertsBlock(config, layer, {.bias = config.output_bias}, {});
}

}  // namespace

const Family kDeepseekV3 = {
    .architecture = "DeepseekV3ForCausalLM",
    .score_class = "DeepseekV3ForSequenceClassification",
    .model_type = "deepseek_v3",
    .checkpoints = "DeepSeek-V3 and R1, Moonlight, their FP8 dequantised",
    .read = &ReadDeepseekV3,
    .block = &DeepseekBlock,
    .harmless = {"aux_loss_alpha", "ep_size", "moe_layer_freq", "num_nextn_predict_layers",
                 "output_router_logits", "pretraining_tp", "qk_head_dim", "scoring_func", "seq_aux",
                 "topk_method"},
    .predicts_more = true};

// Experts with biases and a clamped gate in every layer, attention with sinks, windows in turns.
// Source: transformers modeling_gpt_oss, configuration_gpt_oss.

namespace {

// Of the gate; all published models have them.
constexpr double kAlpha = 1.702, kLimit = 7.0;

void ExpectGate(ConfigKeys& keys, const char* key, double known) {
  const double value = keys.Positive(key, known);
  if (value == known) return;
  keys.Fail(absl::StrCat(key, " is ", value, ", only ", known, " is supported"));
}

// Source: transformers GptOssConfig.
Rope ReadGptOssRope(ConfigKeys& keys) {
  if (keys.Has("rope_parameters") || keys.Has("rope_scaling")) return ReadRope(keys, 150000.0);
  const nlohmann::json usual = {{"rope_theta", keys.Positive("rope_theta", 150000.0)},
                                {"rope_scaling",
                                 {{"rope_type", "yarn"},
                                  {"factor", 32.0},
                                  {"original_max_position_embeddings", 4096},
                                  {"truncate", false}}}};
  ConfigKeys of_usual(usual, "rope");
  return ReadRope(of_usual, 150000.0);
}

void ReadGptOss(ConfigKeys& keys, ModelConfig* config) {
  config->qkv_bias = config->output_bias = keys.Bool("attention_bias", true);
  keys.Default("head_dim", 64);
  if (!ReadDecoder(keys, /*tied_by_default=*/false, config, /*blocks=*/"mxfp4")) return;
  config->rms_norm_eps = keys.Positive("rms_norm_eps", 1e-5);
  config->rope = ReadGptOssRope(keys);
  config->layer_windows = ReadWindows(keys, config->num_layers, keys.Int("sliding_window", 128),
                                      [](int64_t layer) { return layer % 2 == 0; });
  ExpectGate(keys, "swiglu_alpha", kAlpha);
  ExpectGate(keys, "swiglu_limit", kLimit);
  const int64_t chosen = keys.Int("experts_per_token", 4);  // of older files
  ReadExperts(keys, 128, chosen, &config->mixture);
  config->mixture.width = config->intermediate_size;
  config->mixture.renormalise = true;  // the softmax is over the chosen
  config->mixture.router_bias = true;
  config->mixture.aux_loss = ReadAuxLoss(keys);
}

Block GptOssBlock(const ModelConfig& config, int64_t layer) {
  AttentionNames attention = UsualAttention(config);
  attention.sinks = "self_attn.sinks";
  return ExpertsBlock(config, layer, attention,
                      {.router = "mlp.router", .stacked = true, .alpha = kAlpha, .limit = kLimit});
}

}  // namespace

const Family kGptOss = {.architecture = "GptOssForCausalLM",
                        .score_class = "GptOssForSequenceClassification",
                        .model_type = "gpt_oss",
                        .checkpoints = "gpt-oss-20b and 120b, in MXFP4 or bfloat16",
                        .read = &ReadGptOss,
                        .block = &GptOssBlock,
                        .harmless = {"initial_context_length"}};

}  // namespace coxswain::model
