#include "common/model/read/read_rope.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

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
  const auto has = [&scaling](const char* key) {
    const nlohmann::json& value = scaling[key];
    return !value.is_null() && value != 0;
  };
  const bool both = has("mscale") && has("mscale_all_dim");
  const double usual = both ? YarnScale(rope->factor, scaling.Positive("mscale")) /
                                  YarnScale(rope->factor, scaling.Positive("mscale_all_dim"))
                            : YarnScale(rope->factor, 1.0);
  rope->attention_factor = scaling.Positive("attention_factor", usual);
}

std::vector<double> ReadFactors(ConfigKeys& scaling, const char* key, int64_t rotated) {
  const nlohmann::json& list = scaling[key];
  std::vector<double> factors;
  if (list.is_array()) {
    for (const nlohmann::json& factor : list) {
      factors.push_back(factor.is_number() ? factor.get<double>() : 0);
    }
  }
  const bool positive = std::all_of(factors.begin(), factors.end(), [](double f) { return f > 0; });
  if (static_cast<int64_t>(factors.size()) != rotated / 2 || !positive) {
    scaling.Fail(absl::StrCat(key, " must be a list of ", rotated / 2, " numbers above 0"));
  }
  return factors;
}

// Attention grows with the context that the file says beyond the original one.
// Source: transformers _compute_longrope_parameters.
void ReadLongRope(ConfigKeys& keys, ConfigKeys& scaling, int64_t rotated, Rope* rope) {
  rope->original_max_position = OriginalLength(keys, scaling);
  rope->short_factors = ReadFactors(scaling, "short_factor", rotated);
  rope->long_factors = ReadFactors(scaling, "long_factor", rotated);
  const auto original = static_cast<double>(rope->original_max_position);
  const double factor =
      static_cast<double>(keys.Int("max_position_embeddings", rope->original_max_position)) /
      original;
  const double usual = factor <= 1 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(original));
  rope->attention_factor = scaling.Positive("attention_factor", usual);
}

void ReadScaling(ConfigKeys& keys, ConfigKeys& scaling, int64_t head_dim, Rope* rope) {
  if (rope->type == "default") return;
  if (rope->type == "linear") {
    rope->factor = scaling.Positive("factor");
  } else if (rope->type == "llama3") {
    ReadLlama3(keys, scaling, rope);
  } else if (rope->type == "yarn") {
    ReadYarn(keys, scaling, rope);
  } else if (rope->type == "longrope") {
    ReadLongRope(keys, scaling, rope->rotated > 0 ? rope->rotated : head_dim, rope);
  } else if (rope->type == "dynamic") {  // as default up to that length
    scaling.Positive("factor", 1.0);
    rope->original_max_position = keys.Int("max_position_embeddings");
  } else {
    scaling.Fail(absl::StrCat("rope type \"", rope->type,
                              "\" is not supported; supported: default, dynamic, linear, llama3, ",
                              "longrope, yarn"));
  }
}

// Elements of a head; 0 where all rotate.
void SetRotated(ConfigKeys& keys, double part, const RopeDefaults& defaults, int64_t head_dim,
                Rope* rope) {
  if (part == 1.0) return;
  if (defaults.partial == 0) {
    keys.Fail("partial_rotary_factor other than 1 is not supported");
    return;
  }
  rope->rotated = static_cast<int64_t>(static_cast<double>(head_dim) * part);
  if (part > 1 || rope->rotated < 2 || rope->rotated % 2 != 0) {
    keys.Fail(absl::StrCat("partial_rotary_factor ", part, " of head_dim ", head_dim, " rotates ",
                           rope->rotated, " elements, which must be an even number"));
  }
}

}  // namespace

Rope ReadRope(ConfigKeys& keys, double default_theta) {
  return ReadRope(keys, {.theta = default_theta}, 0);
}

Rope ReadRope(ConfigKeys& keys, const RopeDefaults& defaults, int64_t head_dim) {
  Rope rope;
  rope.theta = keys.Positive("rope_theta", defaults.theta);
  double part =
      keys.Positive("partial_rotary_factor", defaults.partial > 0 ? defaults.partial : 1.0);
  const char* key = keys.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!keys.Has(key)) {
    SetRotated(keys, part, defaults, head_dim, &rope);
    return rope;
  }
  const nlohmann::json& object = keys[key];
  if (!object.is_object()) {
    keys.Fail(absl::StrCat(key, " is not an object"));
    return rope;
  }
  ConfigKeys scaling(object, key);
  rope.type = scaling.String("rope_type", scaling.String("type", "default"));
  if (rope.type == "su") rope.type = "longrope";  // its first name
  rope.theta = scaling.Positive("rope_theta", rope.theta);
  part = scaling.Positive("partial_rotary_factor", part);
  SetRotated(scaling, part, defaults, head_dim, &rope);
  ReadScaling(keys, scaling, head_dim, &rope);
  for (const auto& [name, value] : object.items()) {
    if (value.is_object()) scaling.Fail("rope parameters per layer type are not supported");
  }
  if (!scaling.status().ok()) keys.Fail(std::string(scaling.status().message()));
  return rope;
}

LayerRopes ReadLayerRopes(ConfigKeys& keys, double full_theta, double sliding_theta) {
  const double local = keys.Positive("rope_local_base_freq", sliding_theta);
  const nlohmann::json& object = keys["rope_parameters"];
  const bool by_kind = object.is_object() && object.contains("full_attention");
  if (!by_kind) return {.full = ReadRope(keys, full_theta), .sliding = {.theta = local}};
  const auto read = [&](const char* kind, double theta) {
    const nlohmann::json wrapped = {{"rope_parameters", object.value(kind, nlohmann::json())}};
    ConfigKeys of_kind(wrapped, absl::StrCat("rope_parameters.", kind));
    const Rope rope = ReadRope(of_kind, theta);
    if (!of_kind.status().ok()) keys.Fail(std::string(of_kind.status().message()));
    return rope;
  };
  return {.full = read("full_attention", full_theta), .sliding = read("sliding_attention", local)};
}

}  // namespace coxswain::model
