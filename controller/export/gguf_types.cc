#include "controller/export/gguf_types.h"

#include <charconv>

#include "common/model/files/gguf_family.h"

namespace coxswain::exports {
namespace {

struct Word {
  std::string_view word;
  std::string_view name;
  GgufFileType type;
  GgufType main;
};

constexpr Word kWords[] = {
    {"f32", "F32", GgufFileType::kF32, GgufType::kF32},
    {"f16", "F16", GgufFileType::kF16, GgufType::kF16},
    {"bf16", "BF16", GgufFileType::kBF16, GgufType::kBF16},
    {"q8_0", "Q8_0", GgufFileType::kQ8_0, GgufType::kQ8_0},
    {"q4_k_m", "Q4_K_M", GgufFileType::kQ4_K_M, GgufType::kQ4_K},
};

const Word& WordOf(GgufFileType type) {
  for (const Word& word : kWords) {
    if (word.type == type) return word;
  }
  return kWords[0];
}

// "attn_v" of "blk.3.attn_v.weight", and the layer; of "output.weight" the layer is -1.
struct Place {
  std::string_view module;
  int64_t layer = -1;
};

Place PlaceOf(std::string_view name) {
  constexpr std::string_view kBlock = "blk.", kWeight = ".weight";
  if (name.ends_with(kWeight)) name.remove_suffix(kWeight.size());
  Place place = {.module = name};
  if (!name.starts_with(kBlock)) return place;
  name.remove_prefix(kBlock.size());
  const size_t dot = name.find('.');
  std::from_chars(name.data(), name.data() + dot, place.layer);
  place.module = name.substr(dot + 1);
  return place;
}

bool GetsMoreBits(int64_t layer, int64_t layers) {
  const int64_t eighth = layers / 8;
  return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
}

// llama.cpp calls them 70B, whose few value heads serve many query heads.
bool IsSeventyBillion(const model::ModelConfig& model) {
  const std::string_view architecture = model::FindGgufForm(model)->architecture;
  if (model.num_layers != 80) return false;
  return architecture == "qwen2" ||
         (architecture == "llama" && model.num_heads != model.num_kv_heads);
}

GgufType TypeInMixture(const model::ModelConfig& model, const Place& place) {
  constexpr int64_t kFewExperts = 8;
  const bool few_experts = model.mixture.experts == kFewExperts;
  const std::string_view module = place.module;
  if (module == "output" || (module == "token_embd" && model.tie_embeddings)) {
    return GgufType::kQ6_K;
  }
  if (module == "attn_v" || module == "attn_qkv") {
    if (few_experts) return GgufType::kQ8_0;
    if (GetsMoreBits(place.layer, model.num_layers)) return GgufType::kQ6_K;
    return IsSeventyBillion(model) ? GgufType::kQ5_K : GgufType::kQ4_K;
  }
  if (module == "attn_k" && few_experts) return GgufType::kQ8_0;
  if (module == "attn_output" && few_experts) return GgufType::kQ5_K;
  if (module.starts_with("ffn_down") && GetsMoreBits(place.layer, model.num_layers)) {
    return GgufType::kQ6_K;
  }
  return GgufType::kQ4_K;
}

// With blocks of 32.
GgufType SmallerBlocks(GgufType type) {
  switch (type) {
    case GgufType::kQ4_K:
      return GgufType::kQ5_0;
    case GgufType::kQ5_K:
      return GgufType::kQ5_1;
    case GgufType::kQ6_K:
      return GgufType::kQ8_0;
    default:
      return type;
  }
}

}  // namespace

std::string_view GgufFileTypeName(GgufFileType type) { return WordOf(type).name; }

std::optional<GgufFileType> GgufFileTypeOf(std::string_view word) {
  for (const Word& known : kWords) {
    if (known.word == word) return known.type;
  }
  return std::nullopt;
}

GgufType MainGgufType(GgufFileType type) { return WordOf(type).main; }

GgufType TypeOfGgufMatrix(GgufFileType file, const model::ModelConfig& model,
                          const std::string& name, int64_t cols) {
  GgufType type = MainGgufType(file);
  if (file == GgufFileType::kQ4_K_M) type = TypeInMixture(model, PlaceOf(name));
  if (cols % GgufBlock(type) == 0) return type;
  type = SmallerBlocks(type);
  return cols % GgufBlock(type) == 0 ? type : GgufType::kF16;
}

}  // namespace coxswain::exports
