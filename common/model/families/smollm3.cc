// Llama with layers that do not rotate. Source: transformers modeling_smollm3.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/model/families/families.h"
#include "common/model/read/read_decoder.h"
#include "common/model/read/read_rope.h"

namespace coxswain::model {
namespace {

// `no_rope_layers` holds 1 for a layer that rotates; without it each fourth does not.
void ReadUnrotated(ConfigKeys& keys, ModelConfig* config) {
  const int64_t interval = keys.Int("no_rope_layer_interval", 4);
  const nlohmann::json& rotates = keys["no_rope_layers"];
  if (!rotates.is_null() &&
      (!rotates.is_array() || rotates.size() < static_cast<size_t>(config->num_layers))) {
    keys.Fail(absl::StrCat("no_rope_layers must be a list of ", config->num_layers, " entries"));
    return;
  }
  for (int64_t layer = 0; layer < config->num_layers; ++layer) {
    const bool rotated =
        rotates.is_null() ? (layer + 1) % interval != 0 : rotates[static_cast<size_t>(layer)] != 0;
    if (!rotated) config->unrotated_layers.push_back(layer);
  }
}

void ReadSmollm3(ConfigKeys& keys, ModelConfig* config) {
  config->qkv_bias = config->output_bias = keys.Bool("attention_bias", false);
  config->mlp_bias = keys.Bool("mlp_bias", false);
  if (!ReadDecoder(keys, /*tied_by_default=*/true, config)) return;
  config->rope = ReadRope(keys, 2000000.0);
  ReadUnrotated(keys, config);
  const bool slides = keys.Bool("use_sliding_window", false) && keys.Has("sliding_window");
  config->layer_windows = ReadWindows(keys, config->num_layers, slides ? ReadWindow(keys) : 0,
                                      [config](int64_t layer) { return !config->rotates(layer); });
}

}  // namespace

const Family kSmolLm3 = {.architecture = "SmolLM3ForCausalLM",
                         .score_class = "SmolLM3ForSequenceClassification",
                         .model_type = "smollm3",
                         .checkpoints = "SmolLM3 3B",
                         .read = &ReadSmollm3,
                         .harmless = {"pretraining_tp", "max_window_layers", "sliding_window"}};

}  // namespace coxswain::model
