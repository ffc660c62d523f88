// Source: transformers modeling_llama.
#include "common/model/families/families.h"
#include "common/model/read/read_decoder.h"
#include "common/model/read/read_rope.h"

namespace coxswain::model {
namespace {

void ReadLlama(ConfigKeys& keys, ModelConfig* config) {
  config->qkv_bias = config->output_bias = keys.Bool("attention_bias", false);
  config->mlp_bias = keys.Bool("mlp_bias", false);
  if (!ReadDecoder(keys, /*tied_by_default=*/false, config)) return;
  config->rope = ReadRope(keys, 10000.0);
  config->layer_windows =
      ReadWindows(keys, config->num_layers, /*window=*/0, [](int64_t) { return false; });
}

}  // namespace

const Family kLlama = {.architecture = "LlamaForCausalLM",
                       .score_class = "LlamaForSequenceClassification",
                       .model_type = "llama",
                       .checkpoints = "Llama 2, Llama 3.0 to 3.3, Yi, SmolLM 1 and 2, TinyLlama",
                       .read = &ReadLlama,
                       .harmless = {"pretraining_tp", "sliding_window", "use_sliding_window"},
                       .gguf = {.architecture = "llama",
                                .names = PairedGgufNames(),
                                .settings = &LlamaGgufSettings,
                                .llama3_rope = true,
                                .biases = true}};

}  // namespace coxswain::model
