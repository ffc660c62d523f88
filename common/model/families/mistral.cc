// Mistral, Ministral, Mixtral, and the text part of those that read images.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/model/families/families.h"
#include "common/model/read/read_decoder.h"
#include "common/model/read/read_mixture.h"
#include "common/model/read/read_rope.h"

namespace coxswain::model {

// Source: transformers modeling_mistral.

namespace {

void ReadMistral(ConfigKeys& keys, ModelConfig* config) {
  if (!ReadDecoder(keys, /*tied_by_default=*/false, config)) return;
  config->rope = ReadRope(keys, 10000.0);
  config->layer_windows =
      ReadWindows(keys, config->num_layers, ReadWindow(keys), [](int64_t) { return true; });
}

}  // namespace

const Family kMistral = {
    .architecture = "MistralForCausalLM",
    .score_class = "MistralForSequenceClassification",
    .model_type = "mistral",
    .checkpoints = "Mistral 7B, Mistral Nemo, Mistral Small 22B and 24B",
    .read = &ReadMistral,
    .harmless = {"attention_bias", "mlp_bias"},
    .gguf = {.architecture = "llama", .names = PairedGgufNames(), .settings = &LlamaGgufSettings}};

// Mistral whose queries grow with the position beyond the original length.
// Source: transformers modeling_ministral3.

namespace {

double ReadQueryScale(ConfigKeys& keys) {
  const char* key = keys.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  const nlohmann::json& rope = keys[key];
  if (!rope.is_object() || !rope.contains("llama_4_scaling_beta")) return 0;
  ConfigKeys scaling(rope, key);
  const double beta = scaling.Positive("llama_4_scaling_beta");
  if (!scaling.status().ok()) keys.Fail(std::string(scaling.status().message()));
  return beta;
}

void ReadMinistral3(ConfigKeys& keys, ModelConfig* config) {
  if (!ReadDecoder(keys, /*tied_by_default=*/false, config)) return;
  config->rms_norm_eps = keys.Positive("rms_norm_eps", 1e-5);
  config->rope = ReadRope(keys, 1000000.0);
  config->rope.query_scale_beta = ReadQueryScale(keys);
  const int64_t window = keys.Has("sliding_window") ? ReadWindow(keys) : 0;
  config->layer_windows =
      ReadWindows(keys, config->num_layers, window, [](int64_t) { return true; });
}

}  // namespace

const Family kMinistral3 = {.architecture = "Ministral3ForCausalLM",
                            .score_class = "Ministral3ForSequenceClassification",
                            .model_type = "ministral3",
                            .checkpoints = "Ministral 3 3B to 14B, text",
                            .read = &ReadMinistral3,
                            .harmless = {}};

// Mistral Small 3 and Ministral 3 with their images: a text model of either.
// Source: transformers modeling_mistral3.

namespace {

void ReadMistral3(ConfigKeys& keys, ModelConfig* config) {
  const std::string type = keys.String("model_type", std::string(kMistral.model_type));
  for (const Family* text : {&kMistral, &kMinistral3}) {
    if (type == text->model_type) return text->read(keys, config);
  }
  keys.Fail(
      absl::StrCat("model_type \"", type, "\" is not supported; supported: mistral, ministral3"));
}

}  // namespace

const Family kMistral3 = {.architecture = "Mistral3ForConditionalGeneration",
                          .model_type = "mistral3",
                          .checkpoints = "Mistral Small 3.1 and 3.2, Ministral 3: the text part",
                          .read = &ReadMistral3,
                          .outside = &LlavaOutside,
                          .harmless = {"attention_bias", "mlp_bias"},
                          .text = LlavaText()};

// Mistral with experts in every layer. Source: transformers modeling_mixtral.

namespace {

void ReadMixtral(ConfigKeys& keys, ModelConfig* config) {
  if (!ReadDecoder(keys, /*tied_by_default=*/false, config)) return;
  keys.OnlyZero("router_jitter_noise");
  config->rms_norm_eps = keys.Positive("rms_norm_eps", 1e-5);
  config->rope = ReadRope(keys, 1000000.0);
  const int64_t window = keys.Has("sliding_window") ? ReadWindow(keys) : 0;
  config->layer_windows =
      ReadWindows(keys, config->num_layers, window, [](int64_t) { return true; });
  ReadExperts(keys, 8, 2, &config->mixture);
  config->mixture.width = config->intermediate_size;
  config->mixture.renormalise = true;
  config->mixture.aux_loss = ReadAuxLoss(keys);
}

Block MixtralBlock(const ModelConfig& config, int64_t layer) {
  return ExpertsBlock(config, layer, UsualAttention(config),
                      {.router = "block_sparse_moe.gate",
                       .gate = "block_sparse_moe.experts.*.w1",
                       .up = "block_sparse_moe.experts.*.w3",
                       .down = "block_sparse_moe.experts.*.w2",
                       .stacks = "mlp.experts"});
}

}  // namespace

const Family kMixtral = {.architecture = "MixtralForCausalLM",
                         .score_class = "MixtralForSequenceClassification",
                         .model_type = "mixtral",
                         .checkpoints = "Mixtral 8x7B and 8x22B",
                         .read = &ReadMixtral,
                         .block = &MixtralBlock,
                         .harmless = {}};

}  // namespace coxswain::model
