// Source: transformers modeling_mistral.
#include "common/model/families/families.h"
#include "common/model/read/read_decoder.h"
#include "common/model/read/read_rope.h"

namespace coxswain::model {
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

}  // namespace coxswain::model
