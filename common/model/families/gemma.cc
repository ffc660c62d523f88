// Gemma 1. Source: transformers modeling_gemma.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/model/families/families.h"
#include "common/model/read_decoder.h"
#include "common/model/read_rope.h"

namespace coxswain::model {
namespace {

// Published files say `hidden_act: gelu` or nothing; the models were trained with the tanh form,
// which `hidden_activation` and newer files name.
void CheckActivation(ConfigKeys& keys) {
  const std::string named =
      keys.String("hidden_activation", keys.String("hidden_act", "gelu_pytorch_tanh"));
  if (named == "gelu" || named == "gelu_pytorch_tanh") return;
  keys.Fail(absl::StrCat("hidden_activation \"", named,
                         "\" is not supported; supported: gelu_pytorch_tanh"));
}

void Read(ConfigKeys& keys, ModelConfig* config) {
  config->qkv_bias = config->output_bias = keys.Bool("attention_bias", false);
  if (!ReadDecoder(keys, /*tied_by_default=*/true, config)) return;
  CheckActivation(keys);
  if (keys.Bool("use_bidirectional_attention", false)) {
    keys.Fail("use_bidirectional_attention is not supported");
  }
  config->activation = "gelu_tanh";
  config->norm_weights_from_one = true;
  config->embedding_scale = std::sqrt(static_cast<double>(config->hidden_size));
  config->embedding_scale_rounded = true;
  config->rope = ReadRope(keys, 10000.0);
  config->layer_windows =
      ReadWindows(keys, config->num_layers, /*window=*/0, [](int64_t) { return false; });
}

}  // namespace

const Family kGemma = {.architecture = "GemmaForCausalLM",
                       .model_type = "gemma",
                       .checkpoints = "Gemma 1 and CodeGemma, 2B and 7B",
                       .read = &Read,
                       .harmless = {}};

}  // namespace coxswain::model
