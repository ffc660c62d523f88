#include "common/model/read/read_model_config.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/files/read_file.h"
#include "common/model/config_keys.h"
#include "common/model/family.h"
#include "common/status_macros.h"

namespace coxswain::model {
namespace {

using Json = nlohmann::json;

// What says how a model is stored, served, generated from or initialised, in every family.
// Source: transformers configuration_utils and generation.
constexpr std::string_view kHarmless[] = {
    "_attn_implementation",
    "_name_or_path",
    "attn_implementation",
    "auto_map",
    "bos_token_id",
    "do_sample",
    "dtype",
    "eos_token_id",
    "id2label",
    "initializer_range",
    "label2id",
    "max_length",
    "max_position_embeddings",
    "num_labels",
    "output_attentions",
    "output_hidden_states",
    "pad_token_id",
    "problem_type",
    "repetition_penalty",
    "return_dict",
    "temperature",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "unk_token_id",
    "unsloth_fixed",
    "unsloth_version",
    "use_cache",
};

absl::StatusOr<const Family*> FamilyOf(ConfigKeys& keys) {
  const Json& list = keys["architectures"];
  const std::string named =
      list.is_array() && !list.empty() && list[0].is_string() ? list[0].get<std::string>() : "";
  const std::string type = keys.String("model_type", "");
  std::vector<std::string> supported;
  for (const Family* family : Families()) {
    const bool is_named = named == family->architecture ||
                          (!family->score_class.empty() && named == family->score_class);
    if (named.empty() ? type == family->model_type : is_named) return family;
    supported.emplace_back(family->architecture);
  }
  return absl::UnimplementedError(
      absl::StrCat("architecture \"", named.empty() ? type : named,
                   "\" is not supported; supported: ", absl::StrJoin(supported, ", ")));
}

void Warn(const std::string& path, const Family& family, const ConfigKeys& keys,
          std::vector<std::string>* warnings) {
  warnings->insert(warnings->end(), keys.warnings().begin(), keys.warnings().end());
  std::vector<std::string> unknown;
  for (const std::string& key : keys.Unread()) {
    const auto is_key = [&](std::string_view known) { return known == key; };
    if (std::any_of(std::begin(kHarmless), std::end(kHarmless), is_key)) continue;
    if (std::any_of(family.harmless.begin(), family.harmless.end(), is_key)) continue;
    unknown.push_back(key);
  }
  if (unknown.empty()) return;
  warnings->push_back(absl::StrCat(path, ": not known for ", std::string(family.architecture),
                                   " and not read: ", absl::StrJoin(unknown, ", "),
                                   "; check that they change no number of the model"));
}

absl::Status Read(const std::string& path, const Family& family, ConfigKeys& keys,
                  ModelConfig* config, std::vector<std::string>* warnings) {
  family.read(keys, config);
  RETURN_IF_ERROR(keys.status());
  if (warnings != nullptr) Warn(path, family, keys, warnings);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& directory,
                                            std::vector<std::string>* warnings) {
  const std::string path = (std::filesystem::path(directory) / "config.json").string();
  const absl::StatusOr<std::string> content = ReadFile(path, kMaxConfigBytes);
  if (absl::IsNotFound(content.status())) {
    return absl::NotFoundError(absl::StrCat(std::string(content.status().message()), "; is ",
                                            directory, " a Hugging Face model directory?"));
  }
  RETURN_IF_ERROR(content.status());
  const Json document = Json::parse(*content, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a JSON object"));
  }
  ConfigKeys keys(document, path);
  const absl::StatusOr<const Family*> family = FamilyOf(keys);
  if (!family.ok()) {
    return absl::Status(family.status().code(),
                        absl::StrCat(path, ": ", std::string(family.status().message())));
  }
  ModelConfig config;
  config.architecture = (*family)->architecture;
  const std::string part((*family)->text.config);
  if (part.empty()) {
    RETURN_IF_ERROR(Read(path, **family, keys, &config, warnings));
    return config;
  }
  const Json text = TextKeys(document, (*family)->text);
  if (!text.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", part, " is missing"));
  }
  ConfigKeys text_keys(text, absl::StrCat(path, ": ", part));
  for (const char* names_the_family : {"architectures", "model_type"}) {
    text_keys.Has(names_the_family);
  }
  RETURN_IF_ERROR(Read(path, **family, text_keys, &config, warnings));
  return config;
}

std::optional<int64_t> MaxPositions(const std::string& directory) {
  const absl::StatusOr<std::string> text = ReadFile(directory + "/config.json", kMaxConfigBytes);
  if (!text.ok()) return std::nullopt;
  const nlohmann::json config = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  for (const char* part : {"/max_position_embeddings", "/text_config/max_position_embeddings"}) {
    const nlohmann::json::json_pointer at(part);
    if (!config.is_object() || !config.contains(at)) continue;
    const nlohmann::json& value = config.at(at);
    if (value.is_number_integer() && value > 0) return value.get<int64_t>();
  }
  return std::nullopt;
}

}  // namespace coxswain::model
