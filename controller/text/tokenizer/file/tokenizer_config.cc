#include "controller/text/tokenizer/file/tokenizer_config.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/posix_status.h"
#include "common/status_macros.h"
#include "controller/text/tokenizer/file/gzip_file.h"
#include "controller/text/tokenizer/file/quoted.h"

namespace coxswain::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The text of a member; empty where there is none, or it is no text.
std::string TextOf(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// A token is a string, {"content": "..."}, or null; empty: none.
std::string ConfigToken(const json& config, const char* key) {
  const auto found = config.find(key);
  if (found != config.end() && found->is_object()) return TextOf(*found, "content");
  return TextOf(config, key);
}

absl::Status ReadConfigId(const json& config, const char* key, const TokenizerFile& file,
                          int32_t* id) {
  const std::string token = ConfigToken(config, key);
  if (token.empty()) return absl::OkStatus();
  *id = file.IdOf(token);
  if (*id >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(key, " is ", Quoted(token),
                   ", which the tokenizer does not have; save the tokenizer again with "
                   "save_pretrained, or correct the key"));
}

// transformers adds to the tokenizer what added_tokens_decoder lists and tokenizer.json lacks: such
// a pair of files does not say one thing, so it is refused.
absl::Status CheckAddedTokensDecoder(const json& config, const TokenizerFile& file) {
  const auto decoder = config.find("added_tokens_decoder");
  if (decoder == config.end() || !decoder->is_object()) return absl::OkStatus();
  for (const auto& [wanted, token] : decoder->items()) {
    const std::string content = token.is_object() ? TextOf(token, "content") : "";
    const int32_t found = file.IdOf(content);
    const std::string id = found < 0 ? "none" : absl::StrCat(found);
    if (id == wanted) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("added_tokens_decoder gives ", Quoted(content), " the id ", wanted, ", ",
                     fs::path(file.path).filename().string(), " gives it ", id,
                     "; save the tokenizer again with save_pretrained"));
  }
  return absl::OkStatus();
}

// add_bos_token and add_eos_token, where the file has them, say what the post-processor writes.
void ReadAddedEnd(const json& config, const char* key, int32_t id, std::vector<int32_t>* end) {
  const auto found = config.find(key);
  if (found == config.end() || !found->is_boolean()) return;
  end->clear();
  if (found->get<bool>() && id >= 0) end->push_back(id);
}

// A string, or a list of {"name", "template"}.
void ReadChatTemplates(const json& config, TokenizerFile* file) {
  const auto found = config.find("chat_template");
  if (found == config.end()) return;
  if (found->is_string()) file->chat_templates["default"] = found->get<std::string>();
  if (!found->is_array()) return;
  for (const json& entry : *found) {
    if (!entry.is_object()) continue;
    file->chat_templates[TextOf(entry, "name")] = TextOf(entry, "template");
  }
}

absl::Status ReadTemplateFile(const fs::path& path, const std::string& name, TokenizerFile* file,
                              std::string* read) {
  ASSIGN_OR_RETURN(const std::string text, ReadMaybeGzip(path.string(), kMaxTemplateBytes));
  file->chat_templates[name] = text;
  absl::StrAppend(read, "\n", name, " ", text.size(), "\n", text);
  return absl::OkStatus();
}

}  // namespace

// Not by simdjson, which refuses integers above 64 bits: transformers writes a model_max_length of
// 10^30 where a model names none.
absl::Status ReadTokenizerConfig(const std::string& text, TokenizerFile* file) {
  const json config = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("not valid JSON, or no object; the file has ", text.size(),
                     " bytes. Is it truncated, or a Git LFS pointer?"));
  }
  RETURN_IF_ERROR(CheckAddedTokensDecoder(config, *file));
  RETURN_IF_ERROR(ReadConfigId(config, "eos_token", *file, &file->eos_id));
  RETURN_IF_ERROR(ReadConfigId(config, "bos_token", *file, &file->bos_id));
  RETURN_IF_ERROR(ReadConfigId(config, "pad_token", *file, &file->pad_id));
  const auto legacy = config.find("legacy");
  if (file->pipeline.normalizer.sentencepiece() != nullptr && legacy != config.end()) {
    file->pipeline.normalizer.sentencepiece()->prefix_first_only = *legacy == false;
  }
  PostProcessor& ends = file->pipeline.post_processor;
  ReadAddedEnd(config, "add_bos_token", file->bos_id, &ends.front);
  ReadAddedEnd(config, "add_eos_token", file->eos_id, &ends.behind);
  ReadChatTemplates(config, file);
  return absl::OkStatus();
}

absl::Status ReadTemplateFiles(const std::string& directory, TokenizerFile* file,
                               std::string* read) {
  std::error_code error;
  const fs::path own = fs::path(directory) / "chat_template.jinja";
  if (fs::exists(own, error)) {
    file->chat_templates.clear();
    RETURN_IF_ERROR(ReadTemplateFile(own, "default", file, read));
  }
  std::vector<fs::path> additional;
  const fs::path folder = fs::path(directory) / "additional_chat_templates";
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (entry->path().extension() == ".jinja") additional.push_back(entry->path());
  }
  const bool none = error == std::errc::no_such_file_or_directory;
  if (error && !none) return ErrnoStatus(error.value(), "list", folder.string());
  std::sort(additional.begin(), additional.end());
  for (const fs::path& path : additional) {
    RETURN_IF_ERROR(ReadTemplateFile(path, path.stem().string(), file, read));
  }
  return absl::OkStatus();
}

}  // namespace coxswain::data
