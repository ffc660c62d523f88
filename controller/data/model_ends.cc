#include "controller/data/model_ends.h"

#include <set>

#include <nlohmann/json.hpp>

#include "common/files/read_file.h"

namespace coxswain::data {
namespace {

using EndsJson = nlohmann::ordered_json;

// Adds what `json` calls the end of a text: an id or a list of them.
void AddModelEnds(const EndsJson& json, std::set<int32_t>* ends) {
  const auto found = json.find("eos_token_id");
  if (found == json.end()) return;
  for (const EndsJson& id : found->is_array() ? *found : EndsJson::array({*found})) {
    if (id.is_number_integer() && id.get<int64_t>() >= 0) ends->insert(id.get<int32_t>());
  }
}

}  // namespace

// Source: transformers GenerationConfig.from_pretrained, which falls back on config.json.
std::vector<int32_t> ModelEnds(const std::string& model, const Tokenizer& tokenizer) {
  std::set<int32_t> ends;
  if (tokenizer.eos_id() >= 0) ends.insert(tokenizer.eos_id());
  for (const char* name : {"/generation_config.json", "/config.json"}) {
    const absl::StatusOr<std::string> text = ReadFile(model + name, kMaxConfigBytes);
    const EndsJson json =
        text.ok() ? EndsJson::parse(*text, nullptr, /*allow_exceptions=*/false) : EndsJson();
    if (!json.is_object()) continue;
    AddModelEnds(json, &ends);
    if (json.contains("text_config") && json["text_config"].is_object()) {
      AddModelEnds(json["text_config"], &ends);
    }
  }
  return {ends.begin(), ends.end()};
}

}  // namespace coxswain::data
