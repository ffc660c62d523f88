// Qwen2 with experts in some or all layers, and an MLP with a gate beside them.
// Source: transformers modeling_qwen2_moe, configuration_qwen2_moe.
#include "common/model/families/families.h"
#include "common/model/read/read_decoder.h"
#include "common/model/read/read_mixture.h"
#include "common/model/read/read_rope.h"

namespace coxswain::model {
namespace {

// Unlike in Qwen2, it is the even ones of the first layers that have a window.
void ReadWindowsOfEven(ConfigKeys& keys, ModelConfig* config) {
  const int64_t window = keys.Bool("use_sliding_window", false) ? ReadWindow(keys) : 0;
  const int64_t end = keys.Int("max_window_layers", 28);
  config->layer_windows = ReadWindows(keys, config->num_layers, window, [end](int64_t layer) {
    return layer % 2 == 0 && layer < end;
  });
}

void ReadQwen2Moe(ConfigKeys& keys, ModelConfig* config) {
  config->qkv_bias = keys.Bool("qkv_bias", true);
  keys.Default("intermediate_size", 5632);  // of dense layers, which most files have none of
  if (!ReadDecoder(keys, /*tied_by_default=*/false, config)) return;
  config->rope = ReadRope(keys, 10000.0);
  ReadWindowsOfEven(keys, config);
  ReadExperts(keys, 60, 4, &config->mixture);
  config->mixture.width = keys.Int("moe_intermediate_size", 1408);
  config->mixture.shared_width = keys.Int("shared_expert_intermediate_size", 5632);
  config->mixture.shared_gate = true;
  config->mixture.renormalise = keys.Bool("norm_topk_prob", false);
  config->mixture.aux_loss = ReadAuxLoss(keys);
  config->mixture.dense_layers = ReadDenseLayers(keys, config->num_layers);
}

Block Qwen2ExpertsBlock(const ModelConfig& config, int64_t layer) {
  return ExpertsBlock(config, layer, UsualAttention(config), {.shared = "mlp.shared_expert"});
}

}  // namespace

const Family kQwen2Moe = {.architecture = "Qwen2MoeForCausalLM",
                          .score_class = "Qwen2MoeForSequenceClassification",
                          .model_type = "qwen2_moe",
                          .checkpoints = "Qwen1.5-MoE-A2.7B, Qwen2-57B-A14B",
                          .read = &ReadQwen2Moe,
                          .block = &Qwen2ExpertsBlock,
                          .harmless = {"sliding_window"}};

}  // namespace coxswain::model
