#include "controller/text/templates/named_templates.h"

#include "absl/strings/str_cat.h"

namespace coxswain::data {

const std::string* NamedTemplate(std::string_view name) {
  const auto found = NamedTemplateFiles().find(absl::StrCat(std::string(name), ".jinja"));
  return found == NamedTemplateFiles().end() ? nullptr : &found->second;
}

std::vector<std::string_view> TokensOfNamedTemplate(std::string_view name) {
  if (name == "chatml") return {"<|im_start|>", "<|im_end|>"};
  if (name == "llama3") {
    return {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"};
  }
  if (name == "mistral") return {"<s>", "[INST]", "[/INST]", "</s>"};
  if (name == "gemma") return {"<bos>", "<start_of_turn>", "<end_of_turn>"};
  return {};
}

}  // namespace coxswain::data
