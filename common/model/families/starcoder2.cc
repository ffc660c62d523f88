// LayerNorm with bias, an MLP without a gate, biases everywhere.
// Source: transformers modeling_starcoder2.
#include "common/model/families/families.h"
#include "common/model/read/read_decoder.h"
#include "common/model/read/read_rope.h"

namespace coxswain::model {
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
