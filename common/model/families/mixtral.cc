// Mistral with experts in every layer. Source: transformers modeling_mixtral.
#include "common/model/families/families.h"
#include "common/model/read/read_decoder.h"
#include "common/model/read/read_mixture.h"
#include "common/model/read/read_rope.h"

namespace coxswain::model {
namespace {

void ReadMixtral(ConfigKeys& keys, ModelConfig* config) {
  if (!ReadDecoder(keys, /*tied_by_default=*/false, config)) return;
  keys.OnlyZero("router_jitter_noise");
  config->rms_norm_eps = keys.Positive("rms_norm_eps", 1e-5);
  config->rope = ReadRope(keys, 1000000.0);
  const int64_t window = keys.Has("sliding_window") ? ReadWindow(keys) : 0;
  config->layer_windows =
      ReadWindows(keys, config->num_layers, window, [](int64_t) { return true; });
  ReadExperts(keys, 8, 2, &config->mixture);
  config->mixture.width = config->intermediate_size;
  config->mixture.renormalise = true;
  config->mixture.aux_loss = ReadAuxLoss(keys);
}

Block MixtralBlock(const ModelConfig& config, int64_t layer) {
  return ExpertsBlock(config, layer, UsualAttention(config),
                      {.router = "block_sparse_moe.gate",
                       .gate = "block_sparse_moe.experts.*.w1",
                       .up = "block_sparse_moe.experts.*.w3",
                       .down = "block_sparse_moe.experts.*.w2",
                       .stacks = "mlp.experts"});
}

}  // namespace

const Family kMixtral = {.architecture = "MixtralForCausalLM",
                         .score_class = "MixtralForSequenceClassification",
                         .model_type = "mixtral",
                         .checkpoints = "Mixtral 8x7B and 8x22B",
                         .read = &ReadMixtral,
                         .block = &MixtralBlock,
                         .harmless = {}};

}  // namespace coxswain::model
