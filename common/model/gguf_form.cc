#include "common/model/gguf_form.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"

namespace coxswain::model {
namespace {

// The names of a block or outside that match `module`; the number in place of "*" in *expert.
const GgufName* Match(const GgufForm& form, std::string_view module, int64_t* expert) {
  for (const GgufName& name : form.names) {
    const size_t star = name.module.find('*');
    if (star == std::string_view::npos) {
      if (name.module == module) return &name;
      continue;
    }
    const std::string_view before = name.module.substr(0, star);
    const std::string_view behind = name.module.substr(star + 1);
    if (!module.starts_with(before) || !module.ends_with(behind)) continue;
    const char* end = module.data() + module.size() - behind.size();
    const auto [at, error] = std::from_chars(module.data() + before.size(), end, *expert);
    if (error == std::errc() && at == end) return &name;
  }
  return nullptr;
}

uint32_t Number(int64_t value) { return static_cast<uint32_t>(value); }

}  // namespace

std::vector<GgufName> UsualGgufNames() {
  return {{"model.embed_tokens", "token_embd"},
          {"model.norm", "output_norm"},
          {"lm_head", "output"},
          {"input_layernorm", "attn_norm"},
          {"self_attn.q_proj", "attn_q"},
          {"self_attn.k_proj", "attn_k"},
          {"self_attn.v_proj", "attn_v"},
          {"self_attn.q_norm", "attn_q_norm"},
          {"self_attn.k_norm", "attn_k_norm"},
          {"self_attn.o_proj", "attn_output"},
          {"post_attention_layernorm", "ffn_norm"},
          {"mlp.gate_proj", "ffn_gate"},
          {"mlp.up_proj", "ffn_up"},
          {"mlp.down_proj", "ffn_down"}};
}

std::vector<GgufName> PairedGgufNames() {
  std::vector<GgufName> names = UsualGgufNames();
  for (GgufName& name : names) name.pairs = name.gguf == "attn_q" || name.gguf == "attn_k";
  return names;
}

std::vector<GgufSetting> UsualGgufSettings(const ModelConfig& config, const GgufExtras& extras) {
  std::vector<GgufSetting> settings = {
      {"block_count", Number(config.num_layers)},
      {"context_length", Number(extras.context)},
      {"embedding_length", Number(config.hidden_size)},
      {"feed_forward_length", Number(config.intermediate_size)},
      {"attention.head_count", Number(config.num_heads)},
      {"attention.head_count_kv", Number(config.num_kv_heads)},
      {"rope.freq_base", static_cast<float>(config.rope.theta)},
      {"attention.layer_norm_rms_epsilon", static_cast<float>(config.rms_norm_eps)}};
  // llama.cpp takes hidden / heads where they are missing.
  if (extras.head_dim || config.head_dim * config.num_heads != config.hidden_size) {
    settings.emplace_back("attention.key_length", Number(config.head_dim));
    settings.emplace_back("attention.value_length", Number(config.head_dim));
  }
  if (config.mixture.experts > 0) {
    settings.emplace_back("expert_count", Number(config.mixture.experts));
    settings.emplace_back("expert_used_count", Number(config.mixture.chosen));
  }
  return settings;
}

std::vector<GgufSetting> LlamaGgufSettings(const ModelConfig& config, const GgufExtras& extras) {
  std::vector<GgufSetting> settings = UsualGgufSettings(config, extras);
  settings.emplace_back("vocab_size", static_cast<uint32_t>(config.vocab_size));
  settings.emplace_back("rope.dimension_count", static_cast<uint32_t>(config.head_dim));
  return settings;
}

absl::Status FindGgufPlace(const GgufForm& form, const Outside& outside, const std::string& name,
                           GgufPlace* place) {
  const size_t dot = name.rfind('.');
  std::string_view module = std::string_view(name).substr(0, dot);
  std::string prefix;
  if (module.starts_with(outside.layers)) {
    module.remove_prefix(outside.layers.size());
    const size_t end = module.find('.');
    prefix = absl::StrCat("blk.", std::string(module.substr(0, end)), ".");
    module.remove_prefix(end + 1);
  }
  const GgufName* found = Match(form, module, &place->expert);
  if (found == nullptr) {
    return absl::NotFoundError(absl::StrCat("GGUF has no name for the tensor ", name, " of ",
                                            std::string(form.architecture)));
  }
  place->name = absl::StrCat(prefix, std::string(found->gguf), name.substr(dot));
  place->pairs = found->pairs;
  return absl::OkStatus();
}

void PairRows(int64_t heads, int64_t rows, int64_t cols, float* values) {
  const int64_t half = rows / heads / 2;
  std::vector<float> paired(static_cast<size_t>(2 * half * cols));
  for (int64_t head = 0; head < heads; ++head) {
    float* of_head = values + head * 2 * half * cols;
    for (int64_t i = 0; i < half; ++i) {
      std::copy_n(of_head + i * cols, cols, paired.begin() + 2 * i * cols);
      std::copy_n(of_head + (half + i) * cols, cols, paired.begin() + (2 * i + 1) * cols);
    }
    std::copy(paired.begin(), paired.end(), of_head);
  }
}

std::vector<float> Llama3Divisors(const ModelConfig& config) {
  const Rope& rope = config.rope;
  const auto theta = static_cast<float>(rope.theta);
  const auto dim = static_cast<float>(config.rotated_dim());
  const auto original = static_cast<float>(rope.original_max_position);
  const auto low = static_cast<float>(rope.low_freq_factor);
  const auto high = static_cast<float>(rope.high_freq_factor);
  const auto factor = static_cast<float>(rope.factor);
  std::vector<float> divisors;
  for (int64_t i = 0; i < config.rotated_dim(); i += 2) {
    const float frequency = 1.0f / std::pow(theta, static_cast<float>(i) / dim);
    const float wavelength = 2 * std::numbers::pi_v<float> / frequency;
    float divisor = 1.0f;
    if (wavelength > original / low) {
      divisor = factor;
    } else if (wavelength >= original / high) {
      const float smooth = (original / wavelength - low) / (high - low);
      divisor = 1.0f / ((1.0f - smooth) / factor + smooth);
    }
    divisors.push_back(divisor);
  }
  return divisors;
}

}  // namespace coxswain::model
