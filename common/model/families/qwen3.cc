// Source: transformers modeling_qwen3.
#include "common/model/families/families.h"
#include "common/model/read/read_decoder.h"
#include "common/model/read/read_rope.h"

namespace coxswain::model {
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

}  // namespace coxswain::model
