// Command-R and Command-R7B: LayerNorm without bias, attention and MLP side by side on one norm,
// neighbours rotate. Source: transformers modeling_cohere, modeling_cohere2.
#include "common/model/families/families.h"
#include "common/model/read/read_decoder.h"
#include "common/model/read/read_rope.h"

namespace coxswain::model {
namespace {

void ReadBoth(ConfigKeys& keys, double theta, ModelConfig* config) {
  config->qkv_bias = config->output_bias = keys.Bool("attention_bias", false);
  if (!ReadDecoder(keys, /*tied_by_default=*/true, config)) return;
  config->rms_norm_eps = keys.Positive("layer_norm_eps", 1e-5);
  config->logit_scale = keys.Positive("logit_scale", 0.0625);
  config->rope = ReadRope(keys, theta);
  config->rope.interleaved = true;
}

void ReadCohere(ConfigKeys& keys, ModelConfig* config) {
  ReadBoth(keys, 500000.0, config);
  if (!keys.status().ok()) return;
  if (keys.Bool("use_qk_norm", false)) {
    keys.Fail("use_qk_norm: true is not supported: LayerNorm of each head");
  }
  config->layer_windows =
      ReadWindows(keys, config->num_layers, /*window=*/0, [](int64_t) { return false; });
}

// Layers that see everything do not rotate.
void ReadCohere2(ConfigKeys& keys, ModelConfig* config) {
  ReadBoth(keys, 10000.0, config);
  if (!keys.status().ok()) return;
  const int64_t period = keys.Int("sliding_window_pattern", 4);
  config->layer_windows =
      ReadWindows(keys, config->num_layers, ReadWindow(keys),
                  [period](int64_t layer) { return (layer + 1) % period != 0; });
  for (int64_t layer = 0; layer < config->num_layers; ++layer) {
    if (config->layer_windows[static_cast<size_t>(layer)] == 0) {
      config->unrotated_layers.push_back(layer);
    }
  }
}

Block ParallelBlock(const ModelConfig& config, int64_t layer) {
  BlockBuilder block(config, layer);
  const Row normed = block.Norm({.module = "input_layernorm", .layer_norm = true}, block.Input());
  block.Attention(UsualAttention(config), normed, {});
  return block.Finish(block.Input(), block.GatedMlp({}, normed, {.adds = true}));
}

Outside UnbiasedOutside(const ModelConfig& config) {
  return LayerNormOutside(config, /*bias=*/false);
}

}  // namespace

const Family kCohere = {.architecture = "CohereForCausalLM",
                        .model_type = "cohere",
                        .checkpoints = "Command-R, Aya 23",
                        .read = &ReadCohere,
                        .block = &ParallelBlock,
                        .outside = &UnbiasedOutside,
                        .harmless = {"use_parallel_block"}};

const Family kCohere2 = {
    .architecture = "Cohere2ForCausalLM",
    .model_type = "cohere2",
    .checkpoints = "Command-R7B, Command A",
    .read = &ReadCohere2,
    .block = &ParallelBlock,
    .outside = &UnbiasedOutside,
    .harmless = {"cache_implementation", "order_of_interleaved_layers", "position_embedding_type",
                 "rotary_pct", "use_embedding_sharing", "use_gated_activation",
                 "use_parallel_block", "use_parallel_embedding"}};

}  // namespace coxswain::model
