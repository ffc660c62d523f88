// Source: transformers modeling_granite.
#include "common/model/families/families.h"
#include "common/model/read/read_decoder.h"
#include "common/model/read/read_rope.h"

namespace coxswain::model {
namespace {

// With residuals scaled by m the stream is h + m f(norm(h)). Of h / m it is h + f(norm(m h)), and a
// norm of m h is one of h with eps / m^2: the embedding takes the scale, and the same numbers come
// out of the final norm.
void FoldResidualScale(double m, ModelConfig* config) {
  config->embedding_scale /= m;
  config->rms_norm_eps /= m * m;
}

void ReadGranite(ConfigKeys& keys, ModelConfig* config) {
  config->qkv_bias = config->output_bias = keys.Bool("attention_bias", false);
  config->mlp_bias = keys.Bool("mlp_bias", false);
  if (!ReadDecoder(keys, /*tied_by_default=*/false, config)) return;
  config->embedding_scale = keys.Positive("embedding_multiplier", 1.0);
  config->attention_scale = keys.Positive("attention_multiplier", 1.0);
  config->logit_scale = 1.0 / keys.Positive("logits_scaling", 1.0);
  FoldResidualScale(keys.Positive("residual_multiplier", 1.0), config);
  config->rope = ReadRope(keys, 10000.0);
  config->layer_windows =
      ReadWindows(keys, config->num_layers, /*window=*/0, [](int64_t) { return false; });
}

}  // namespace

const Family kGranite = {.architecture = "GraniteForCausalLM",
                         .model_type = "granite",
                         .checkpoints = "Granite 3.0 to 3.3, dense",
                         .read = &ReadGranite,
                         .harmless = {}};

}  // namespace coxswain::model
