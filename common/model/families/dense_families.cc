// Families of one dense architecture each.
#include "common/model/families/families.h"
#include "common/model/read/read_decoder.h"
#include "common/model/read/read_rope.h"

namespace coxswain::model {

// Source: transformers modeling_granite.

namespace {

// With residuals scaled by m the stream is h + m f(norm(h)). Of h / m it is h + f(norm(m h)), and a
// norm of m h is one of h with eps / m^2: the embedding takes the scale, and the same numbers come
// out of the final norm.
void FoldResidualScale(double m, ModelConfig* config) {
  config->embedding_scale /= m;
  config->rms_norm_eps /= m * m;
}

void ReadGranite(ConfigKeys& keys, ModelConfig* config) {
  config->qkv_bias = config->output_bias = keys.Bool("attention_bias", false);
  config->mlp_bias = keys.Bool("mlp_bias", false);
  if (!ReadDecoder(keys, /*tied_by_default=*/false, config)) return;
  config->embedding_scale = keys.Positive("embedding_multiplier", 1.0);
  config->attention_scale = keys.Positive("attention_multiplier", 1.0);
  config->logit_scale = 1.0 / keys.Positive("logits_scaling", 1.0);
  FoldResidualScale(keys.Positive("residual_multiplier", 1.0), config);
  config->rope = ReadRope(keys, 10000.0);
  config->layer_windows =
      ReadWindows(keys, config->num_layers, /*window=*/0, [](int64_t) { return false; });
}

}  // namespace

const Family kGranite = {.architecture = "GraniteForCausalLM",
                         .model_type = "granite",
                         .checkpoints = "Granite 3.0 to 3.3, dense",
                         .read = &ReadGranite,
                         .harmless = {}};

// Norms behind attention and MLP, none before; q and k normalised over all their heads together.
// Source: transformers modeling_olmo2.

namespace {

void ReadOlmo2(ConfigKeys& keys, ModelConfig* config) {
  config->qkv_bias = config->output_bias = keys.Bool("attention_bias", false);
  config->qk_norm = true;
  if (!ReadDecoder(keys, /*tied_by_default=*/false, config)) return;
  config->rms_norm_eps = keys.Positive("rms_norm_eps", 1e-5);
  config->rope = ReadRope(keys, 10000.0);
  config->layer_windows =
      ReadWindows(keys, config->num_layers, /*window=*/0, [](int64_t) { return false; });
}

Block PostNormBlock(const ModelConfig& config, int64_t layer) {
  BlockBuilder block(config, layer);
  AttentionNames names = UsualAttention(config);
  names.qk_norm = QkNorm::kWhole;
  const Row attended = block.Attention(names, block.Input(), {.kept = true});
  const Row middle = block.AddMiddle(block.BranchNorm({"post_attention_layernorm"}, attended));
  const Row product = block.GatedMlp({}, middle, {.kept = true});
  return block.Finish(middle, block.BranchNorm({"post_feedforward_layernorm"}, product));
}

}  // namespace

const Family kOlmo2 = {.architecture = "Olmo2ForCausalLM",
                       .score_class = "Olmo2ForSequenceClassification",
                       .model_type = "olmo2",
                       .checkpoints = "OLMo 2 1B to 32B",
                       .read = &ReadOlmo2,
                       .block = &PostNormBlock,
                       .harmless = {}};

// q, k, v as one tensor, gate and up as one; PEFT adapts each as one module.
// Source: transformers modeling_phi3.

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

// LayerNorm with bias, an MLP without a gate, biases everywhere.
// Source: transformers modeling_starcoder2.

namespace {

void ReadStarcoder2(ConfigKeys& keys, ModelConfig* config) {
  // Published files ask for 0.1, which fine-tuning leaves out.
  for (const char* key : {"attention_dropout", "residual_dropout", "embedding_dropout"}) {
    keys.NotApplied(key);
  }
  config->qkv_bias = config->output_bias = config->mlp_bias = keys.Bool("use_bias", true);
  if (!ReadDecoder(keys, /*tied_by_default=*/true, config)) return;
  if (!keys.Has("hidden_act")) config->activation = "gelu_tanh";
  if (config->activation == "silu") {
    keys.Fail(
        "hidden_act silu is not supported without a gate; supported: gelu, gelu_pytorch_tanh");
  }
  config->rms_norm_eps = keys.Positive("norm_epsilon", 1e-5);
  config->rope = ReadRope(keys, 10000.0);
  const int64_t window = keys.Has("sliding_window") ? ReadWindow(keys) : 0;
  config->layer_windows =
      ReadWindows(keys, config->num_layers, window, [](int64_t) { return true; });
}

NormNames Norm(const char* module) { return {.module = module, .layer_norm = true, .bias = true}; }

Block PlainMlpBlock(const ModelConfig& config, int64_t layer) {
  BlockBuilder block(config, layer);
  const Row normed = block.Norm(Norm("input_layernorm"), block.Input());
  const Row middle = block.AddMiddle(block.Attention(UsualAttention(config), normed, {}));
  const Row again = block.Norm(Norm("post_attention_layernorm"), middle);
  const MlpNames mlp{.up = "mlp.c_fc", .down = "mlp.c_proj", .bias = config.mlp_bias};
  return block.Finish(middle, block.PlainMlp(mlp, again, {}));
}

Outside BiasedOutside(const ModelConfig& config) { return LayerNormOutside(config, /*bias=*/true); }

}  // namespace

const Family kStarcoder2 = {.architecture = "Starcoder2ForCausalLM",
                            .score_class = "Starcoder2ForSequenceClassification",
                            .model_type = "starcoder2",
                            .checkpoints = "StarCoder2 3B to 15B",
                            .read = &ReadStarcoder2,
                            .block = &PlainMlpBlock,
                            .outside = &BiasedOutside,
                            .harmless = {"activation_function", "mlp_type", "norm_type"}};

}  // namespace coxswain::model
