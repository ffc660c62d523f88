#include "common/model/read/read_decoder.h"

#include <string>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace coxswain::model {
namespace {

// Source: transformers ACT2FN.
std::string ReadActivation(ConfigKeys& keys) {
  const std::string name = keys.String("hidden_act", "silu");
  if (name == "silu" || name == "swish") return "silu";
  if (name == "gelu") return "gelu";
  if (name == "gelu_pytorch_tanh" || name == "gelu_new" || name == "gelu_fast") return "gelu_tanh";
  keys.Fail(absl::StrCat("hidden_act \"", name,
                         "\" is not supported; supported: silu, gelu, gelu_pytorch_tanh"));
  return "silu";
}

// Settings that change the numbers and have no implementation.
void RefuseUnsupported(ConfigKeys& keys) { keys.OnlyZero("attention_dropout"); }

// DeepSeek's FP8, which reading dequantises. Source: transformers FineGrainedFP8Config.
bool IsFp8InBlocks(const nlohmann::json& settings) {
  return settings.value("quant_method", nlohmann::json()) == "fp8" &&
         settings.value("fmt", nlohmann::json("e4m3")) == "e4m3" &&
         settings.value("weight_block_size", nlohmann::json()) == nlohmann::json({128, 128});
}

// Of bitsandbytes, or blocks of which MXFP4 may stay. Source: transformers BitsAndBytesConfig.
void ReadQuantization(ConfigKeys& keys, const std::string& blocks, ModelConfig* config) {
  if (!keys.Has("quantization_config")) return;
  const nlohmann::json& settings = keys["quantization_config"];
  const auto refuse = [&](const std::string& what) {
    keys.Fail(absl::StrCat("quantization_config: ", what,
                           "; supported: bitsandbytes nf4 and int8, fp8 of fmt e4m3 with "
                           "weight_block_size [128, 128]; or use the unquantised model"));
  };
  const auto text = [&](const char* key, const char* otherwise) {
    const auto found = settings.find(key);
    return found != settings.end() && found->is_string() ? found->get<std::string>()
                                                         : std::string(otherwise);
  };
  const auto yes = [&](const char* key) {
    const auto found = settings.find(key);
    return found != settings.end() && found->is_boolean() && found->get<bool>();
  };
  if (!settings.is_object()) return refuse("not an object");
  if (!blocks.empty() && text("quant_method", "") == blocks) {
    if (blocks == ToString(Quantization::kMxfp4)) config->quantization = Quantization::kMxfp4;
    return;
  }
  if (IsFp8InBlocks(settings)) return;
  if (text("quant_method", "bitsandbytes") != "bitsandbytes") {
    return refuse(absl::StrCat("quant_method \"", text("quant_method", ""), "\""));
  }
  if (yes("load_in_8bit")) {
    config->quantization = Quantization::kInt8;
    return;
  }
  if (!yes("load_in_4bit")) return refuse("neither load_in_4bit nor load_in_8bit");
  if (text("bnb_4bit_quant_type", "fp4") != "nf4") {
    return refuse(absl::StrCat("bnb_4bit_quant_type \"", text("bnb_4bit_quant_type", "fp4"), "\""));
  }
  config->quantization =
      yes("bnb_4bit_use_double_quant") ? Quantization::kNf4Double : Quantization::kNf4;
}

void ReadHeads(ConfigKeys& keys, ModelConfig* config) {
  config->num_heads = keys.Int("num_attention_heads");
  config->num_kv_heads = keys.Int("num_key_value_heads", config->num_heads);
  if (keys.Has("head_dim")) {
    config->head_dim = keys.Int("head_dim");
  } else if (config->hidden_size % config->num_heads != 0) {
    keys.Fail(absl::StrCat("hidden_size ", config->hidden_size, " is not a multiple of ",
                           config->num_heads, " num_attention_heads and head_dim is missing"));
  } else {
    config->head_dim = config->hidden_size / config->num_heads;
  }
  if (config->num_heads % config->num_kv_heads != 0) {
    keys.Fail(absl::StrCat("num_attention_heads ", config->num_heads,
                           " is not a multiple of num_key_value_heads ", config->num_kv_heads));
  }
  if (config->head_dim % 2 != 0) {
    keys.Fail(absl::StrCat("head_dim ", config->head_dim, " is odd"));
  }
}

}  // namespace

bool ReadDecoder(ConfigKeys& keys, bool tied_by_default, ModelConfig* config,
                 const std::string& blocks) {
  config->vocab_size = keys.Int("vocab_size");
  config->hidden_size = keys.Int("hidden_size");
  config->intermediate_size = keys.Int("intermediate_size");
  config->num_layers = keys.Int("num_hidden_layers");
  config->rms_norm_eps = keys.Positive("rms_norm_eps", 1e-6);
  config->tie_embeddings = keys.Bool("tie_word_embeddings", tied_by_default);
  config->activation = ReadActivation(keys);
  RefuseUnsupported(keys);
  ReadQuantization(keys, blocks, config);
  ReadHeads(keys, config);
  if (config->num_layers > 10000) {
    keys.Fail(absl::StrCat("num_hidden_layers is ", config->num_layers, ", the limit is 10000"));
  }
  return keys.status().ok();
}

int64_t ReadWindow(ConfigKeys& keys) {
  return keys.IsNull("sliding_window") ? 0 : keys.Int("sliding_window", 4096);
}

std::vector<int64_t> ReadWindows(ConfigKeys& keys, int64_t layers, int64_t window,
                                 const std::function<bool(int64_t layer)>& slides) {
  std::vector<int64_t> windows(static_cast<size_t>(layers), 0);
  if (!keys.Has("layer_types")) {
    for (int64_t i = 0; i < layers && window > 0; ++i) {
      if (slides(i)) windows[static_cast<size_t>(i)] = window;
    }
    return windows;
  }
  const nlohmann::json& types = keys["layer_types"];
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

}  // namespace coxswain::model
