// Qwen3 with experts in some or all layers. Source: transformers modeling_qwen3_moe.
#include "common/model/families/families.h"
#include "common/model/read/read_decoder.h"
#include "common/model/read/read_mixture.h"
#include "common/model/read/read_rope.h"

namespace coxswain::model {
namespace {

void ReadQwen3Moe(ConfigKeys& keys, ModelConfig* config) {
  config->qkv_bias = config->output_bias = keys.Bool("attention_bias", false);
  config->qk_norm = true;
  if (!ReadDecoder(keys, /*tied_by_default=*/false, config)) return;
  config->rope = ReadRope(keys, 10000.0);
  const int64_t window = keys.Bool("use_sliding_window", false) ? ReadWindow(keys) : 0;
  config->layer_windows =
      ReadWindows(keys, config->num_layers, window, [](int64_t) { return true; });
  ReadExperts(keys, 128, 8, &config->mixture);
  config->mixture.width = keys.Int("moe_intermediate_size", 768);
  config->mixture.renormalise = keys.Bool("norm_topk_prob", false);
  config->mixture.aux_loss = ReadAuxLoss(keys);
  config->mixture.dense_layers = ReadDenseLayers(keys, config->num_layers);
}

std::vector<GgufName> QwenGgufNames() {
  std::vector<GgufName> names = UsualGgufNames();
  names.insert(names.end(), {{"mlp.gate", "ffn_gate_inp"},
                             {"mlp.experts.*.gate_proj", "ffn_gate_exps"},
                             {"mlp.experts.*.up_proj", "ffn_up_exps"},
                             {"mlp.experts.*.down_proj", "ffn_down_exps"}});
  return names;
}

std::vector<GgufSetting> QwenGgufSettings(const ModelConfig& config, const GgufExtras& extras) {
  std::vector<GgufSetting> settings = UsualGgufSettings(config, extras);
  settings.emplace_back("expert_feed_forward_length", static_cast<uint32_t>(config.mixture.width));
  return settings;
}

std::string QwenGgufRefusal(const ModelConfig& config) {
  if (!config.mixture.dense_layers.empty()) {
    return "llama.cpp has experts in all of its layers, and some are dense (mlp_only_layers)";
  }
  return config.mixture.renormalise
             ? ""
             : "llama.cpp normalises the weights of experts, and norm_topk_prob is false";
}

Block QwenExpertsBlock(const ModelConfig& config, int64_t layer) {
  return ExpertsBlock(config, layer, UsualAttention(config), {});
}

}  // namespace

const Family kQwen3Moe = {.architecture = "Qwen3MoeForCausalLM",
                          .score_class = "Qwen3MoeForSequenceClassification",
                          .model_type = "qwen3_moe",
                          .checkpoints = "Qwen3 30B-A3B, 235B-A22B, Qwen3-Coder",
                          .read = &ReadQwen3Moe,
                          .block = &QwenExpertsBlock,
                          .harmless = {"sliding_window", "max_window_layers"},
                          .gguf = {.architecture = "qwen3moe",
                                   .names = QwenGgufNames(),
                                   .settings = &QwenGgufSettings,
                                   .refusal = &QwenGgufRefusal}};

}  // namespace coxswain::model
