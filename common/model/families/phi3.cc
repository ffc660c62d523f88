// q, k, v as one tensor, gate and up as one; PEFT adapts each as one module.
// Source: transformers modeling_phi3.
#include "common/model/families/families.h"
#include "common/model/read/read_decoder.h"
#include "common/model/read/read_rope.h"

namespace coxswain::model {
namespace {

void ReadPhi3(ConfigKeys& keys, ModelConfig* config) {
  if (!ReadDecoder(keys, /*tied_by_default=*/false, config)) return;
  keys.OnlyZero("resid_pdrop");
  keys.OnlyZero("embd_pdrop");
  config->rms_norm_eps = keys.Positive("rms_norm_eps", 1e-5);
  config->rope = ReadRope(keys, {.theta = 10000.0, .partial = 1.0}, config->head_dim);
  const int64_t window = keys.Has("sliding_window") ? ReadWindow(keys) : 0;
  config->layer_windows =
      ReadWindows(keys, config->num_layers, window, [](int64_t) { return true; });
}

Block FusedTensorsBlock(const ModelConfig& config, int64_t layer) {
  return PreNormBlock(config, layer, {.qkv = "self_attn.qkv_proj"},
                      {.gate_up = "mlp.gate_up_proj"});
}

// One tensor each for q, k, v and for gate, up.
std::vector<GgufName> PhiGgufNames() {
  std::vector<GgufName> names = UsualGgufNames();
  names.insert(names.end(), {{"self_attn.qkv_proj", "attn_qkv"}, {"mlp.gate_up_proj", "ffn_up"}});
  return names;
}

std::vector<GgufSetting> PhiGgufSettings(const ModelConfig& config, const GgufExtras& extras) {
  std::vector<GgufSetting> settings = UsualGgufSettings(config, extras);
  const auto context = static_cast<uint32_t>(extras.context);
  settings.emplace_back("rope.scaling.original_context_length", context);
  settings.emplace_back("rope.dimension_count", static_cast<uint32_t>(config.rotated_dim()));
  settings.emplace_back("attention.sliding_window",
                        static_cast<uint32_t>(config.layer_windows.front()));
  return settings;
}

}  // namespace

const Family kPhi3 = {
    .architecture = "Phi3ForCausalLM",
    .score_class = "Phi3ForSequenceClassification",
    .model_type = "phi3",
    .checkpoints = "Phi-3, Phi-3.5 mini and medium, Phi-4, Phi-4-mini",
    .read = &ReadPhi3,
    .block = &FusedTensorsBlock,
    .harmless = {"original_max_position_embeddings", "attention_bias", "full_attn_mod",
                 "interpolate_factor", "lm_head_bias", "mlp_bias", "use_qk_norm"},
    .gguf = {.architecture = "phi3",
             .names = PhiGgufNames(),
             .settings = &PhiGgufSettings,
             .has_window = [](int64_t) { return true; }}};

}  // namespace coxswain::model
