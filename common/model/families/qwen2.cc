// Source: transformers modeling_qwen2.
#include "common/model/families/families.h"
#include "common/model/read/read_decoder.h"
#include "common/model/read/read_rope.h"

namespace coxswain::model {
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

}  // namespace coxswain::model
