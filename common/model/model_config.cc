#include "common/model/model_config.h"

#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace coxswain::model {
namespace {

using Json = nlohmann::json;

enum class Family { kLlama, kQwen2, kQwen3, kMistral };

struct FamilyRow {
  const char* architecture;
  const char* model_type;
  Family family;
};

constexpr FamilyRow kFamilies[] = {
    {"LlamaForCausalLM", "llama", Family::kLlama},
    {"MistralForCausalLM", "mistral", Family::kMistral},
    {"Qwen2ForCausalLM", "qwen2", Family::kQwen2},
    {"Qwen3ForCausalLM", "qwen3", Family::kQwen3},
};

// Typed access to one JSON object; the first wrong key is kept as the error. A null counts as
// absent.
class Keys {
 public:
  Keys(const Json& object, std::string where) : object_(object), where_(std::move(where)) {}

  bool Has(const char* key) const { return !(*this)[key].is_null(); }

  int64_t Int(const char* key, std::optional<int64_t> fallback = std::nullopt) {
    if (!Has(key)) return Absent(key, fallback);
    if (!(*this)[key].is_number_integer()) return Wrong<int64_t>(key, "an integer");
    const int64_t value = (*this)[key].get<int64_t>();
    // 2^31 - 1 keeps every product of two extents inside int64.
    if (value < 1 || value > std::numeric_limits<int32_t>::max()) {
      return Wrong<int64_t>(key, "between 1 and 2147483647");
    }
    return value;
  }

  double Positive(const char* key, std::optional<double> fallback = std::nullopt) {
    if (!Has(key)) return Absent(key, fallback);
    if (!(*this)[key].is_number() || !((*this)[key].get<double>() > 0)) {
      return Wrong<double>(key, "a number above 0");
    }
    return (*this)[key].get<double>();
  }

  bool Bool(const char* key, bool fallback) {
    if (!Has(key)) return fallback;
    if (!(*this)[key].is_boolean()) return Wrong<bool>(key, "true or false");
    return (*this)[key].get<bool>();
  }

  std::string String(const char* key, const std::string& fallback) {
    if (!Has(key)) return fallback;
    if (!(*this)[key].is_string()) return Wrong<std::string>(key, "a string");
    return (*this)[key].get<std::string>();
  }

  bool IsNull(const char* key) const { return object_.contains(key) && (*this)[key].is_null(); }

  // Null when absent.
  const Json& operator[](const char* key) const {
    static const Json kNull;
    const auto it = object_.find(key);
    return it == object_.end() ? kNull : *it;
  }

  void Fail(const std::string& what) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(absl::StrCat(where_, ": ", what));
  }

  const absl::Status& status() const { return status_; }

 private:
  template <typename T>
  T Absent(const char* key, const std::optional<T>& fallback) {
    if (fallback.has_value()) return *fallback;
    Fail(absl::StrCat(key, " is missing"));
    return T{1};
  }

  template <typename T>
  T Wrong(const char* key, const char* expected) {
    Fail(absl::StrCat(key, " is ", (*this)[key].dump(), ", expected ", expected));
    if constexpr (std::is_arithmetic_v<T>) return T{1};
    return T{};
  }

  const Json& object_;
  const std::string where_;
  absl::Status status_;
};

absl::StatusOr<Family> FamilyOf(Keys& keys, std::string* architecture) {
  const Json& list = keys["architectures"];
  const std::string named =
      list.is_array() && !list.empty() && list[0].is_string() ? list[0].get<std::string>() : "";
  const std::string type = keys.String("model_type", "");
  std::string supported;
  for (const FamilyRow& row : kFamilies) {
    absl::StrAppend(&supported, supported.empty() ? "" : ", ", row.architecture);
    if (named.empty() ? type == row.model_type : named == row.architecture) {
      *architecture = row.architecture;
      return row.family;
    }
  }
  return absl::UnimplementedError(absl::StrCat("architecture \"", named.empty() ? type : named,
                                               "\" is not supported; supported: ", supported));
}

// The v4 dialect has rope_theta and rope_scaling, the v5 dialect rope_parameters.
Rope ReadRope(Keys& keys) {
  Rope rope;
  rope.theta = keys.Positive("rope_theta", 10000.0);
  const char* key = keys.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!keys.Has(key)) return rope;
  if (!keys[key].is_object()) {
    keys.Fail(absl::StrCat(key, " is not an object"));
    return rope;
  }
  Keys scaling(keys[key], key);
  rope.type = scaling.String("rope_type", scaling.String("type", "default"));
  rope.theta = scaling.Positive("rope_theta", rope.theta);
  if (scaling.Positive("partial_rotary_factor", 1.0) != 1.0) {
    scaling.Fail("partial_rotary_factor other than 1 is not supported");
  }
  if (rope.type == "llama3") {
    rope.factor = scaling.Positive("factor");
    rope.low_freq_factor = scaling.Positive("low_freq_factor");
    rope.high_freq_factor = scaling.Positive("high_freq_factor");
    rope.original_max_position = scaling.Int("original_max_position_embeddings");
    if (rope.high_freq_factor <= rope.low_freq_factor) {
      scaling.Fail("high_freq_factor must be above low_freq_factor");
    }
  } else if (rope.type != "default") {
    scaling.Fail(
        absl::StrCat("rope type \"", rope.type, "\" is not supported; supported: default, llama3"));
  }
  for (const auto& [name, value] : keys[key].items()) {
    if (value.is_object()) scaling.Fail("rope parameters per layer type are not supported");
  }
  if (!scaling.status().ok()) keys.Fail(std::string(scaling.status().message()));
  return rope;
}

// Whether layers slide when no layer_types list says so. Source: transformers configuration_*.py.
bool SlidesByDefault(Family family, Keys& keys, int64_t layer) {
  switch (family) {
    case Family::kMistral:
      return true;
    case Family::kQwen2:
    case Family::kQwen3:
      return layer >= keys.Int("max_window_layers", 28);
    case Family::kLlama:
      return false;
  }
  return false;
}

// The window of a config, 0 for none. An absent sliding_window means 4096 where one is used.
int64_t ConfiguredWindow(Family family, Keys& keys) {
  if (family == Family::kLlama) return 0;
  if (family != Family::kMistral && !keys.Bool("use_sliding_window", false)) return 0;
  if (keys.IsNull("sliding_window")) return 0;
  return keys.Int("sliding_window", 4096);
}

std::vector<int64_t> ReadWindows(Family family, Keys& keys, int64_t layers) {
  const int64_t window = ConfiguredWindow(family, keys);
  std::vector<int64_t> windows(static_cast<size_t>(layers), 0);
  if (!keys.Has("layer_types")) {
    for (int64_t i = 0; i < layers && window > 0; ++i) {
      if (SlidesByDefault(family, keys, i)) windows[static_cast<size_t>(i)] = window;
    }
    return windows;
  }
  const Json& types = keys["layer_types"];
  if (!types.is_array() || types.size() != static_cast<size_t>(layers)) {
    keys.Fail(absl::StrCat("layer_types must be a list of ", layers, " entries"));
    return windows;
  }
  for (size_t i = 0; i < windows.size(); ++i) {
    if (types[i] == "sliding_attention" && window > 0) {
      windows[i] = window;
    } else if (types[i] != "full_attention") {
      keys.Fail(absl::StrCat("layer_types[", i, "] is ", types[i].dump(), " with sliding_window ",
                             window,
                             "; supported: full_attention, sliding_attention with a window"));
    }
  }
  return windows;
}

// Settings that change the numbers and have no implementation.
void RefuseUnsupported(Keys& keys) {
  if (keys.String("hidden_act", "silu") != "silu") {
    keys.Fail(absl::StrCat("hidden_act ", keys["hidden_act"].dump(),
                           " is not supported; supported: silu"));
  }
  if (keys.Has("quantization_config")) {
    keys.Fail(
        "quantization_config: quantised weights are not supported; use the unquantised model");
  }
  if (keys.Has("attention_dropout") && keys["attention_dropout"] != 0) {
    keys.Fail(absl::StrCat("attention_dropout is ", keys["attention_dropout"].dump(),
                           ", only 0 is supported"));
  }
  if (keys.Positive("partial_rotary_factor", 1.0) != 1.0) {
    keys.Fail("partial_rotary_factor other than 1 is not supported");
  }
}

ModelConfig ReadConfig(Family family, Keys& keys) {
  ModelConfig config;
  config.vocab_size = keys.Int("vocab_size");
  config.hidden_size = keys.Int("hidden_size");
  config.intermediate_size = keys.Int("intermediate_size");
  config.num_layers = keys.Int("num_hidden_layers");
  config.num_heads = keys.Int("num_attention_heads");
  config.num_kv_heads = keys.Int("num_key_value_heads", config.num_heads);
  config.rms_norm_eps = keys.Positive("rms_norm_eps", 1e-6);
  config.tie_embeddings = keys.Bool("tie_word_embeddings", false);
  const bool attention_bias = family != Family::kMistral && keys.Bool("attention_bias", false);
  config.qkv_bias = family == Family::kQwen2 || attention_bias;
  config.output_bias = family != Family::kQwen2 && attention_bias;
  config.mlp_bias = family == Family::kLlama && keys.Bool("mlp_bias", false);
  config.qk_norm = family == Family::kQwen3;
  RefuseUnsupported(keys);
  if (!keys.status().ok()) return config;

  if (keys.Has("head_dim")) {
    config.head_dim = keys.Int("head_dim");
  } else if (config.hidden_size % config.num_heads != 0) {
    keys.Fail(absl::StrCat("hidden_size ", config.hidden_size, " is not a multiple of ",
                           config.num_heads, " num_attention_heads and head_dim is missing"));
  } else {
    config.head_dim = config.hidden_size / config.num_heads;
  }
  if (config.num_heads % config.num_kv_heads != 0) {
    keys.Fail(absl::StrCat("num_attention_heads ", config.num_heads,
                           " is not a multiple of num_key_value_heads ", config.num_kv_heads));
  }
  if (config.head_dim % 2 != 0) keys.Fail(absl::StrCat("head_dim ", config.head_dim, " is odd"));
  if (config.num_layers > 10000) {
    keys.Fail(absl::StrCat("num_hidden_layers is ", config.num_layers, ", the limit is 10000"));
    return config;
  }
  config.rope = ReadRope(keys);
  config.layer_windows = ReadWindows(family, keys, config.num_layers);
  return config;
}

}  // namespace

absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& directory) {
  const std::string path = (std::filesystem::path(directory) / "config.json").string();
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    return absl::NotFoundError(
        absl::StrCat("cannot read ", path, "; is ", directory, " a Hugging Face model directory?"));
  }
  const Json document = Json::parse(stream, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a JSON object"));
  }
  Keys keys(document, path);
  std::string architecture;
  absl::StatusOr<Family> family = FamilyOf(keys, &architecture);
  if (!family.ok()) {
    return absl::Status(family.status().code(),
                        absl::StrCat(path, ": ", std::string(family.status().message())));
  }
  ModelConfig config = ReadConfig(*family, keys);
  config.architecture = architecture;
  RETURN_IF_ERROR(keys.status());
  return config;
}

}  // namespace coxswain::model
