#include "common/model/read_rope.h"

#include <cmath>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace coxswain::model {
namespace {

// The context that the model was pretrained with, tokens. A key beside the rotation's own wins.
int64_t OriginalLength(ConfigKeys& keys, ConfigKeys& scaling) {
  const char* key = "original_max_position_embeddings";
  if (keys.Has(key)) return keys.Int(key);
  if (scaling.Has(key) || !keys.Has("max_position_embeddings")) return scaling.Int(key);
  return keys.Int("max_position_embeddings");
}

void ReadLlama3(ConfigKeys& keys, ConfigKeys& scaling, Rope* rope) {
  rope->factor = scaling.Positive("factor");
  rope->low_freq_factor = scaling.Positive("low_freq_factor");
  rope->high_freq_factor = scaling.Positive("high_freq_factor");
  rope->original_max_position = OriginalLength(keys, scaling);
  if (rope->high_freq_factor <= rope->low_freq_factor) {
    scaling.Fail("high_freq_factor must be above low_freq_factor");
  }
}

double YarnScale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

void ReadYarn(ConfigKeys& keys, ConfigKeys& scaling, Rope* rope) {
  rope->original_max_position = OriginalLength(keys, scaling);
  rope->factor = scaling.Has("factor") ? scaling.Positive("factor")
                                       : static_cast<double>(keys.Int("max_position_embeddings")) /
                                             static_cast<double>(rope->original_max_position);
  rope->beta_fast = scaling.Positive("beta_fast", 32.0);
  rope->beta_slow = scaling.Positive("beta_slow", 1.0);
  rope->truncate = scaling.Bool("truncate", true);
  const bool both = scaling.Has("mscale") && scaling.Has("mscale_all_dim");
  const double usual = both ? YarnScale(rope->factor, scaling.Positive("mscale")) /
                                  YarnScale(rope->factor, scaling.Positive("mscale_all_dim"))
                            : YarnScale(rope->factor, 1.0);
  rope->attention_factor = scaling.Positive("attention_factor", usual);
}

void ReadScaling(ConfigKeys& keys, ConfigKeys& scaling, Rope* rope) {
  if (rope->type == "default") return;
  if (rope->type == "linear") {
    rope->factor = scaling.Positive("factor");
  } else if (rope->type == "llama3") {
    ReadLlama3(keys, scaling, rope);
  } else if (rope->type == "yarn") {
    ReadYarn(keys, scaling, rope);
  } else if (rope->type == "dynamic") {  // as default up to that length
    scaling.Positive("factor", 1.0);
    rope->original_max_position = keys.Int("max_position_embeddings");
  } else {
    scaling.Fail(absl::StrCat("rope type \"", rope->type,
                              "\" is not supported; supported: default, dynamic, linear, llama3, ",
                              "yarn"));
  }
}

}  // namespace

Rope ReadRope(ConfigKeys& keys, double default_theta) {
  Rope rope;
  rope.theta = keys.Positive("rope_theta", default_theta);
  if (keys.Positive("partial_rotary_factor", 1.0) != 1.0) {
    keys.Fail("partial_rotary_factor other than 1 is not supported");
  }
  const char* key = keys.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!keys.Has(key)) return rope;
  const nlohmann::json& object = keys[key];
  if (!object.is_object()) {
    keys.Fail(absl::StrCat(key, " is not an object"));
    return rope;
  }
  ConfigKeys scaling(object, key);
  rope.type = scaling.String("rope_type", scaling.String("type", "default"));
  rope.theta = scaling.Positive("rope_theta", rope.theta);
  if (scaling.Positive("partial_rotary_factor", 1.0) != 1.0) {
    scaling.Fail("partial_rotary_factor other than 1 is not supported");
  }
  ReadScaling(keys, scaling, &rope);
  for (const auto& [name, value] : object.items()) {
    if (value.is_object()) scaling.Fail("rope parameters per layer type are not supported");
  }
  if (!scaling.status().ok()) keys.Fail(std::string(scaling.status().message()));
  return rope;
}

}  // namespace coxswain::model
