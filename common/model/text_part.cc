#include "common/model/text_part.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "common/model/block_builder.h"

namespace coxswain::model {

bool TextPart::IsBeside(std::string_view tensor) const {
  return std::any_of(beside.begin(), beside.end(),
                     [tensor](std::string_view prefix) { return tensor.starts_with(prefix); });
}

TextPart LlavaText() {
  return {.config = "text_config",
          .spellings = {{"language_model.model.", "model.language_model."},
                        {"language_model.lm_head.", "lm_head."}},
          .beside = {"vision_tower.", "multi_modal_projector.", "model.vision_tower.",
                     "model.multi_modal_projector."}};
}

Outside LlavaOutside(const ModelConfig& config) {
  Outside outside = UsualOutside(config);
  outside.layers = "model.language_model.layers.";
  outside.embedding.name = "model.language_model.embed_tokens.weight";
  outside.final_norm[0].name = "model.language_model.norm.weight";
  return outside;
}

nlohmann::json TextKeys(const nlohmann::json& document, const TextPart& part) {
  const auto found = document.find(std::string(part.config));
  if (found == document.end() || !found->is_object()) return nullptr;
  nlohmann::json keys = *found;
  for (const char* whole : {"tie_word_embeddings", "quantization_config"}) {
    if (document.contains(whole)) keys[whole] = document[whole];
  }
  return keys;
}

}  // namespace coxswain::model
