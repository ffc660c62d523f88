// Qwen 2 and 3, dense and with experts.
#include "common/model/families/families.h"
#include "common/model/read/read_decoder.h"
#include "common/model/read/read_mixture.h"
#include "common/model/read/read_rope.h"

namespace coxswain::model {

// Source: transformers modeling_qwen2.

namespace {

void ReadQwen2(ConfigKeys& keys, ModelConfig* config) {
  config->qkv_bias = true;
  if (!ReadDecoder(keys, /*tied_by_default=*/false, config)) return;
  config->rope = ReadRope(keys, 10000.0);
  const int64_t window = keys.Bool("use_sliding_window", false) ? ReadWindow(keys) : 0;
  const int64_t first = keys.Int("max_window_layers", 28);
  config->layer_windows = ReadWindows(keys, config->num_layers, window,
                                      [first](int64_t layer) { return layer >= first; });
}

}  // namespace

const Family kQwen2 = {
    .architecture = "Qwen2ForCausalLM",
    .score_class = "Qwen2ForSequenceClassification",
    .model_type = "qwen2",
    .checkpoints = "Qwen1.5, Qwen2, Qwen2.5, QwQ, DeepSeek-R1 distilled from them",
    .read = &ReadQwen2,
    .harmless = {"sliding_window", "attention_bias", "use_mrope"},
    .gguf = {.architecture = "qwen2",
             .names = UsualGgufNames(),
             .settings = &UsualGgufSettings,
             .biases = true}};

// Source: transformers modeling_qwen3.

namespace {

void ReadQwen3(ConfigKeys& keys, ModelConfig* config) {
  config->qkv_bias = config->output_bias = keys.Bool("attention_bias", false);
  config->qk_norm = true;
  if (!ReadDecoder(keys, /*tied_by_default=*/false, config)) return;
  config->rope = ReadRope(keys, 10000.0);
  const int64_t window = keys.Bool("use_sliding_window", false) ? ReadWindow(keys) : 0;
  const int64_t first = keys.Int("max_window_layers", 28);
  config->layer_windows = ReadWindows(keys, config->num_layers, window,
                                      [first](int64_t layer) { return layer >= first; });
}

}  // namespace

const Family kQwen3 = {
    .architecture = "Qwen3ForCausalLM",
    .score_class = "Qwen3ForSequenceClassification",
    .model_type = "qwen3",
    .checkpoints = "Qwen3 0.6B to 32B",
    .read = &ReadQwen3,
    .harmless = {"sliding_window"},
    .gguf = {.architecture = "qwen3", .names = UsualGgufNames(), .settings = &UsualGgufSettings}};

// Qwen2 with experts in some or all layers, and an MLP with a gate beside them.
// Source: transformers modeling_qwen2_moe, configuration_qwen2_moe.

namespace {

// Unlike in Qwen2, it is the even ones of the first layers that have a window.
void ReadWindowsOfEven(ConfigKeys& keys, ModelConfig* config) {
  const int64_t window = keys.Bool("use_sliding_window", false) ? ReadWindow(keys) : 0;
  const int64_t end = keys.Int("max_window_layers", 28);
  config->layer_windows = ReadWindows(keys, config->num_layers, window, [end](int64_t layer) {
    return layer % 2 == 0 && layer < end;
  });
}

void ReadQwen2Moe(ConfigKeys& keys, ModelConfig* config) {
  config->qkv_bias = keys.Bool("qkv_bias", true);
  keys.Default("intermediate_size", 5632);  // of dense layers, which most files have none of
  if (!ReadDecoder(keys, /*tied_by_default=*/false, config)) return;
  config->rope = ReadRope(keys, 10000.0);
  ReadWindowsOfEven(keys, config);
  ReadExperts(keys, 60, 4, &config->mixture);
  config->mixture.width = keys.Int("moe_intermediate_size", 1408);
  config->mixture.shared_width = keys.Int("shared_expert_intermediate_size", 5632);
  config->mixture.shared_gate = true;
  config->mixture.renormalise = keys.Bool("norm_topk_prob", false);
  config->mixture.aux_loss = ReadAuxLoss(keys);
  config->mixture.dense_layers = ReadDenseLayers(keys, config->num_layers);
}

Block Qwen2ExpertsBlock(const ModelConfig& config, int64_t layer) {
  return ExpertsBlock(config, layer, UsualAttention(config), {.shared = "mlp.shared_expert"});
}

}  // namespace

const Family kQwen2Moe = {.architecture = "Qwen2MoeForCausalLM",
                          .score_class = "Qwen2MoeForSequenceClassification",
                          .model_type = "qwen2_moe",
                          .checkpoints = "Qwen1.5-MoE-A2.7B, Qwen2-57B-A14B",
                          .read = &ReadQwen2Moe,
                          .block = &Qwen2ExpertsBlock,
                          .harmless = {"sliding_window"}};

// Qwen3 with experts in some or all layers. Source: transformers modeling_qwen3_moe.

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
