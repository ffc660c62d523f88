#include "common/model/read/read_latent.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/model/read/read_decoder.h"
#include "common/model/read/read_rope.h"

namespace coxswain::model {
namespace {

LatentAttention ReadExtents(ConfigKeys& keys, const LatentAttention& defaults) {
  LatentAttention latent;
  latent.q_rank = keys.IsNull("q_lora_rank") ? 0 : keys.Int("q_lora_rank", defaults.q_rank);
  latent.kv_rank = keys.Int("kv_lora_rank", defaults.kv_rank);
  latent.nope = keys.Int("qk_nope_head_dim", defaults.nope);
  latent.rope = keys.Int("qk_rope_head_dim", defaults.rope);
  latent.value = keys.Int("v_head_dim", defaults.value);
  if (latent.rope % 2 != 0 || latent.nope % 2 != 0) {
    keys.Fail(absl::StrCat("qk_nope_head_dim ", latent.nope, " or qk_rope_head_dim ", latent.rope,
                           " is odd"));
  }
  return latent;
}

// What longer contexts multiply scores by: m^2 of YaRN, beside what the rotation has.
double ScoreGrowth(ConfigKeys& keys, const Rope& rope) {
  const char* key = keys.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  const nlohmann::json& object = keys[key];
  if (!object.is_object() || rope.type == "default" || rope.factor <= 1) return 1.0;
  const auto mscale = object.find("mscale_all_dim");
  if (mscale == object.end() || !mscale->is_number()) return 1.0;
  const double m = 0.1 * mscale->get<double>() * std::log(rope.factor) + 1.0;
  return m * m;
}

}  // namespace

bool ReadLatentDecoder(ConfigKeys& keys, const LatentAttention& defaults, ModelConfig* config) {
  // A head_dim of the file is that of the rotated part, or nothing that is read.
  keys.Default("head_dim", 2);
  if (!ReadDecoder(keys, /*tied_by_default=*/false, config)) return false;
  if (config->num_kv_heads != config->num_heads) {
    keys.Fail(absl::StrCat("num_key_value_heads ", config->num_kv_heads, " is not supported; all ",
                           config->num_heads, " num_attention_heads have keys of their own"));
  }
  config->latent = ReadExtents(keys, defaults);
  config->head_dim = config->latent->nope + config->latent->rope;
  config->qkv_bias = config->output_bias = keys.Bool("attention_bias", false);
  config->rope = ReadRope(keys, {.theta = 10000.0}, config->latent->rope);
  config->rope.rotated = config->latent->rope;
  config->rope.interleaved = keys.Bool("rope_interleave", true);
  const double growth = ScoreGrowth(keys, config->rope);
  if (growth != 1.0) config->attention_scale = growth * config->score_scale();
  config->layer_windows =
      ReadWindows(keys, config->num_layers, /*window=*/0, [](int64_t) { return false; });
  return keys.status().ok();
}

}  // namespace coxswain::model
