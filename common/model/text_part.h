// Where the text of a model that reads images too lies in its files.
#ifndef COXSWAIN_COMMON_MODEL_TEXT_PART_H_
#define COXSWAIN_COMMON_MODEL_TEXT_PART_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/model/block.h"

namespace coxswain::model {

// All empty: the files hold a text model and nothing else.
struct TextPart {
  std::string_view config;  // object of config.json with the keys of the text model
  // Prefixes of tensors: of published files, and of transformers 5, which Outside has.
  std::vector<std::pair<std::string_view, std::string_view>> spellings;
  // Prefixes of tensors that are not of the text, in either spelling. They stay as they are.
  std::vector<std::string_view> beside;

  bool IsBeside(std::string_view tensor) const;
};

// Of the models that keep it as LLaVA does. Source: transformers conversion_mapping, "llava".
TextPart LlavaText();
Outside LlavaOutside(const ModelConfig& config);

// The keys of the text model, with those of the whole file that decide over them. Null where the
// file has no such object, which is an error of `keys`.
nlohmann::json TextKeys(const nlohmann::json& document, const TextPart& part);

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_TEXT_PART_H_
