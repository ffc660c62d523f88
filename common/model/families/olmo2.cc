// Norms behind attention and MLP, none before; q and k normalised over all their heads together.
// Source: transformers modeling_olmo2.
#include "common/model/families/families.h"
#include "common/model/read/read_decoder.h"
#include "common/model/read/read_rope.h"

namespace coxswain::model {
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

}  // namespace coxswain::model
