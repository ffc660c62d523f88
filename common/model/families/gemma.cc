// Gemma 1, 2 and 3. Source: transformers modeling_gemma, modeling_gemma2, modeling_gemma3.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/model/families/families.h"
#include "common/model/read/read_decoder.h"
#include "common/model/read/read_rope.h"

namespace coxswain::model {
namespace {

// Published files of Gemma 1 say `hidden_act: gelu` or nothing; the models were trained with the
// tanh form, which `hidden_activation` and newer files name.
void CheckActivation(ConfigKeys& keys) {
  const std::string named =
      keys.String("hidden_activation", keys.String("hidden_act", "gelu_pytorch_tanh"));
  if (named == "gelu" || named == "gelu_pytorch_tanh") return;
  keys.Fail(absl::StrCat("hidden_activation \"", named,
                         "\" is not supported; supported: gelu_pytorch_tanh"));
}

// What the three have in common. False: nothing more is to be read.
bool ReadAny(ConfigKeys& keys, ModelConfig* config) {
  config->qkv_bias = config->output_bias = keys.Bool("attention_bias", false);
  if (!ReadDecoder(keys, /*tied_by_default=*/true, config)) return false;
  CheckActivation(keys);
  if (keys.Bool("use_bidirectional_attention", false)) {
    keys.Fail("use_bidirectional_attention is not supported");
  }
  config->activation = "gelu_tanh";
  config->norm_weights_from_one = true;
  config->embedding_scale = std::sqrt(static_cast<double>(config->hidden_size));
  config->embedding_scale_rounded = true;
  return true;
}

void ReadGemma(ConfigKeys& keys, ModelConfig* config) {
  if (!ReadAny(keys, config)) return;
  config->rope = ReadRope(keys, 10000.0);
  config->layer_windows =
      ReadWindows(keys, config->num_layers, /*window=*/0, [](int64_t) { return false; });
}

// 0: none. An explicit null is none, an absent key what the family has.
double ReadSoftcap(ConfigKeys& keys, const char* key, double usual) {
  if (keys.IsNull(key)) return 0;
  return usual == 0 && !keys.Has(key) ? 0 : keys.Positive(key, usual);
}

// Gemma 2 and 3: caps, the scale of queries, every `period`-th layer sees everything.
void ReadWindowed(ConfigKeys& keys, double score_cap, double logit_cap, int64_t period,
                  ModelConfig* config) {
  config->attention_scale =
      1.0 / std::sqrt(static_cast<double>(keys.Int("query_pre_attn_scalar", 256)));
  config->attention_softcap = ReadSoftcap(keys, "attn_logit_softcapping", score_cap);
  config->logit_softcap = ReadSoftcap(keys, "final_logit_softcapping", logit_cap);
  config->layer_windows =
      ReadWindows(keys, config->num_layers, ReadWindow(keys),
                  [period](int64_t layer) { return (layer + 1) % period != 0; });
}

void ReadGemma2(ConfigKeys& keys, ModelConfig* config) {
  if (!ReadAny(keys, config)) return;
  ReadWindowed(keys, 50.0, 30.0, /*period=*/2, config);
  config->rope = ReadRope(keys, 10000.0);
}

void ReadGemma3(ConfigKeys& keys, ModelConfig* config) {
  config->qk_norm = true;
  if (!ReadAny(keys, config)) return;
  const int64_t period = keys.Int("_sliding_window_pattern", keys.Int("sliding_window_pattern", 6));
  ReadWindowed(keys, 0, 0, period, config);
  const LayerRopes ropes = ReadLayerRopes(keys, 1000000.0, 10000.0);
  config->rope = ropes.full;
  config->window_rope = ropes.sliding;
}

// What config.json leaves out where it is as in the 4B model.
void ReadGemma3Text(ConfigKeys& keys, ModelConfig* config) {
  keys.Default("vocab_size", 262208);
  keys.Default("num_attention_heads", 8);
  keys.Default("num_key_value_heads", 4);
  keys.Default("head_dim", 256);
  ReadGemma3(keys, config);
}

Block FourNormBlock(const ModelConfig& config, int64_t layer) {
  return SandwichBlock(config, layer,
                       {.behind_attention = "post_attention_layernorm",
                        .before_mlp = "pre_feedforward_layernorm",
                        .behind_mlp = "post_feedforward_layernorm"},
                       UsualAttention(config), {});
}

std::vector<GgufName> Gemma2GgufNames() {
  std::vector<GgufName> names = UsualGgufNames();
  std::erase_if(names, [](const GgufName& name) { return name.gguf == "ffn_norm"; });
  names.insert(names.end(), {{"post_attention_layernorm", "post_attention_norm"},
                             {"pre_feedforward_layernorm", "ffn_norm"},
                             {"post_feedforward_layernorm", "post_ffw_norm"}});
  return names;
}

std::vector<GgufSetting> Gemma2GgufSettings(const ModelConfig& config, const GgufExtras& extras) {
  std::vector<GgufSetting> settings = UsualGgufSettings(config, extras);
  std::erase_if(settings, [](const GgufSetting& s) { return s.first == "rope.freq_base"; });
  settings.emplace_back("attn_logit_softcapping", static_cast<float>(config.attention_softcap));
  settings.emplace_back("final_logit_softcapping", static_cast<float>(config.logit_softcap));
  settings.emplace_back("attention.sliding_window",
                        static_cast<uint32_t>(config.layer_windows.front()));
  return settings;
}

// What llama.cpp does not read from the file, but has as published models have it.
std::string Gemma2GgufRefusal(const ModelConfig& config) {
  if (config.rope.theta != 10000.0) return "llama.cpp has rope_theta 10000 for it";
  if (config.attention_softcap == 0 || config.logit_softcap == 0) {
    return "llama.cpp has caps on scores and logits for it, and config.json has none";
  }
  constexpr int64_t kLayersOf27B = 46;
  const int64_t scalar =
      config.num_layers == kLayersOf27B ? config.hidden_size / config.num_heads : config.head_dim;
  const double scale = 1.0 / std::sqrt(static_cast<double>(scalar));
  if (config.attention_scale == scale) return "";
  return absl::StrCat("llama.cpp has query_pre_attn_scalar ", scalar, " for it");
}

}  // namespace

const Family kGemma = {.architecture = "GemmaForCausalLM",
                       .score_class = "GemmaForSequenceClassification",
                       .model_type = "gemma",
                       .checkpoints = "Gemma 1 and CodeGemma, 2B and 7B",
                       .read = &ReadGemma,
                       .harmless = {}};

const Family kGemma2 = {.architecture = "Gemma2ForCausalLM",
                        .score_class = "Gemma2ForSequenceClassification",
                        .model_type = "gemma2",
                        .checkpoints = "Gemma 2 2B, 9B, 27B",
                        .read = &ReadGemma2,
                        .block = &FourNormBlock,
                        .harmless = {"cache_implementation"},
                        .gguf = {.architecture = "gemma2",
                                 .names = Gemma2GgufNames(),
                                 .settings = &Gemma2GgufSettings,
                                 .has_window = [](int64_t layer) { return layer % 2 == 0; },
                                 .refusal = &Gemma2GgufRefusal}};

const Family kGemma3 = {.architecture = "Gemma3ForCausalLM",
                        .score_class = "Gemma3TextForSequenceClassification",
                        .model_type = "gemma3_text",
                        .checkpoints = "Gemma 3 270M and 1B; 4B to 27B saved without images",
                        .read = &ReadGemma3,
                        .block = &FourNormBlock,
                        .harmless = {"cache_implementation"}};

const Family kGemma3Images = {
    .architecture = "Gemma3ForConditionalGeneration",
    .model_type = "gemma3",
    .checkpoints = "Gemma 3 4B, 12B, 27B with their images: the text part",
    .read = &ReadGemma3Text,
    .block = &FourNormBlock,
    .outside = &LlavaOutside,
    .harmless = {"cache_implementation"},
    .text = LlavaText()};

}  // namespace coxswain::model
