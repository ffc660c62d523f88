// Mistral whose queries grow with the position beyond the original length.
// Source: transformers modeling_ministral3.
#include <nlohmann/json.hpp>

#include "common/model/families/families.h"
#include "common/model/read/read_decoder.h"
#include "common/model/read/read_rope.h"

namespace coxswain::model {
namespace {

double ReadQueryScale(ConfigKeys& keys) {
  const char* key = keys.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  const nlohmann::json& rope = keys[key];
  if (!rope.is_object() || !rope.contains("llama_4_scaling_beta")) return 0;
  ConfigKeys scaling(rope, key);
  const double beta = scaling.Positive("llama_4_scaling_beta");
  if (!scaling.status().ok()) keys.Fail(std::string(scaling.status().message()));
  return beta;
}

void ReadMinistral3(ConfigKeys& keys, ModelConfig* config) {
  if (!ReadDecoder(keys, /*tied_by_default=*/false, config)) return;
  config->rms_norm_eps = keys.Positive("rms_norm_eps", 1e-5);
  config->rope = ReadRope(keys, 1000000.0);
  config->rope.query_scale_beta = ReadQueryScale(keys);
  const int64_t window = keys.Has("sliding_window") ? ReadWindow(keys) : 0;
  config->layer_windows =
      ReadWindows(keys, config->num_layers, window, [](int64_t) { return true; });
}

}  // namespace

const Family kMinistral3 = {.architecture = "Ministral3ForCausalLM",
                            .score_class = "Ministral3ForSequenceClassification",
                            .model_type = "ministral3",
                            .checkpoints = "Ministral 3 3B to 14B, text",
                            .read = &ReadMinistral3,
                            .harmless = {}};

}  // namespace coxswain::model
