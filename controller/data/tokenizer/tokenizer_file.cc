#include "controller/data/tokenizer/tokenizer_file.h"

#include <simdjson.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/hash.h"
#include "common/status_macros.h"
#include "controller/data/tokenizer/byte_alphabet.h"
#include "controller/data/tokenizer/gzip_file.h"
#include "controller/data/tokenizer/nfc.h"

namespace coxswain::data {
namespace {

namespace fs = std::filesystem;
using simdjson::dom::element;

constexpr int64_t kMaxId = 1 << 24;  // a larger id is a damaged file, not a vocabulary

absl::Status Invalid(const std::string& what) { return absl::InvalidArgumentError(what); }

std::string Quoted(std::string_view text) { return absl::StrCat("'", std::string(text), "'"); }

template <typename T>
T Get(element object, std::string_view key, T absent) {
  T value = absent;
  if (object[key].get(value) != simdjson::SUCCESS) return absent;
  return value;
}

absl::StatusOr<std::string> FindTokenizerJson(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  for (const char* name : {"tokenizer.json", "tokenizer.json.gz"}) {
    const fs::path candidate = fs::path(path) / name;
    if (fs::exists(candidate, ignored)) return candidate.string();
  }
  return absl::NotFoundError(
      absl::StrCat(path,
                   ": no tokenizer.json here. A model that ships only tokenizer.model or "
                   "vocab.json needs one: load it with transformers and save_pretrained"));
}

absl::StatusOr<element> Parse(const std::string& text, simdjson::dom::parser* parser) {
  element document;
  const simdjson::error_code error = parser->parse(text).get(document);
  if (error != simdjson::SUCCESS) {
    return Invalid(absl::StrCat("not valid JSON (", simdjson::error_message(error),
                                "); the file has ", text.size(),
                                " bytes. Is it truncated, or a Git LFS pointer?"));
  }
  if (!document.is_object()) return Invalid("the top of the file is not a JSON object");
  return document;
}

absl::Status AddToken(std::string_view token, int64_t id, TokenizerFile* file) {
  if (id < 0 || id >= kMaxId) {
    return Invalid(
        absl::StrCat("token ", Quoted(token), " has id ", id, ", outside 0..", kMaxId - 1));
  }
  if (static_cast<size_t>(id) >= file->tokens.size()) {
    file->tokens.resize(static_cast<size_t>(id) + 1);
    file->bytes.resize(file->tokens.size());
  }
  if (!file->tokens[id].empty()) {
    return Invalid(absl::StrCat("id ", id, " is given to two tokens, ", Quoted(file->tokens[id]),
                                " and ", Quoted(token)));
  }
  file->tokens[id] = std::string(token);
  file->bytes[id] = TokenToBytes(token).value_or(std::string(token));
  file->ids.emplace(std::string(token), static_cast<int32_t>(id));
  return absl::OkStatus();
}

absl::Status ReadVocabulary(element model, TokenizerFile* file) {
  simdjson::dom::object vocabulary;
  if (model["vocab"].get(vocabulary) != simdjson::SUCCESS) {
    return Invalid("model.vocab is missing or not an object");
  }
  const bool ignore_merges = Get(model, "ignore_merges", false);
  file->tokens.reserve(vocabulary.size());
  file->bytes.reserve(vocabulary.size());
  file->ids.reserve(vocabulary.size());
  for (const auto field : vocabulary) {
    int64_t id = 0;
    if (field.value.get(id) != simdjson::SUCCESS) {
      return Invalid(absl::StrCat("model.vocab: id of ", Quoted(field.key), " is not an integer"));
    }
    if (field.key.empty()) continue;  // can never be produced
    RETURN_IF_ERROR(AddToken(field.key, id, file));
    if (!ignore_merges) continue;
    if (auto bytes = TokenToBytes(field.key)) {
      file->whole_words.emplace(*std::move(bytes), static_cast<int32_t>(id));
    }
  }
  file->model_size = static_cast<int32_t>(vocabulary.size());
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = file->ids.find(ByteToCharacter(static_cast<uint8_t>(byte)));
    if (found == file->ids.end()) {
      return Invalid(absl::StrCat("model.vocab has no token for byte ", byte, " (",
                                  Quoted(ByteToCharacter(static_cast<uint8_t>(byte))),
                                  "); byte-level BPE needs all 256"));
    }
    file->byte_ids[byte] = found->second;
  }
  return absl::OkStatus();
}

// Both spellings of a merge: "a b" and ["a", "b"].
bool ReadMergePair(element merge, std::string_view* left, std::string_view* right) {
  std::string_view joined;
  if (merge.get(joined) == simdjson::SUCCESS) {
    const size_t space = joined.find(' ');
    if (space == std::string_view::npos || joined.find(' ', space + 1) != std::string_view::npos) {
      return false;
    }
    *left = joined.substr(0, space);
    *right = joined.substr(space + 1);
    return true;
  }
  simdjson::dom::array pair;
  return merge.get(pair) == simdjson::SUCCESS && pair.size() == 2 &&
         pair.at(0).get(*left) == simdjson::SUCCESS && pair.at(1).get(*right) == simdjson::SUCCESS;
}

absl::Status ReadMerges(element model, TokenizerFile* file) {
  simdjson::dom::array merges;
  if (model["merges"].get(merges) != simdjson::SUCCESS) {
    return Invalid("model.merges is missing or not an array");
  }
  file->rules.reserve(merges.size());
  std::string joined;
  for (const element merge : merges) {
    std::string_view left;
    std::string_view right;
    if (!ReadMergePair(merge, &left, &right)) {
      return Invalid(absl::StrCat("model.merges: entry ", file->rules.size(),
                                  " is neither \"a b\" nor [\"a\", \"b\"]"));
    }
    joined.assign(left).append(right);
    Bpe::Rule rule{};
    for (const auto& [token, id] : {std::pair<std::string_view, int32_t*>{left, &rule.left},
                                    {right, &rule.right},
                                    {joined, &rule.merged}}) {
      const auto found = file->ids.find(absl::string_view(token.data(), token.size()));
      if (found == file->ids.end()) {
        return Invalid(absl::StrCat("model.merges: entry ", file->rules.size(), " needs token ",
                                    Quoted(token), ", which model.vocab does not have"));
      }
      *id = found->second;
    }
    file->rules.push_back(rule);
  }
  return absl::OkStatus();
}

absl::Status CheckModel(element model) {
  const std::string type(Get<std::string_view>(model, "type", "BPE"));
  if (type != "BPE") {
    return Invalid(absl::StrCat("model type ", Quoted(type),
                                " is not supported; supported: byte-level BPE (type 'BPE')"));
  }
  if (Get(model, "byte_fallback", false)) {
    return Invalid(
        "model has byte_fallback (SentencePiece-style BPE), which is not supported; supported: "
        "byte-level BPE (Qwen2, Llama-3, GPT-2 and the like)");
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const std::string_view affix = Get<std::string_view>(model, key, "");
    if (!affix.empty()) {
      return Invalid(
          absl::StrCat("model.", key, " is ", Quoted(affix), "; only an empty one is supported"));
    }
  }
  const double dropout = Get(model, "dropout", 0.0);
  if (dropout != 0.0) {
    return Invalid(absl::StrCat("model.dropout is ", dropout, "; only 0 or null is supported"));
  }
  return absl::OkStatus();
}

// tokenizers numbers an added token itself: by the vocabulary if it is there, else the next free
// id. A file whose numbers differ would be renumbered on load, so it is refused.
absl::Status CheckAddedId(const AddedToken& token, int32_t largest_added,
                          const TokenizerFile& file) {
  const auto known = file.ids.find(token.content);
  const int32_t expected = known != file.ids.end()            ? known->second
                           : largest_added >= file.model_size ? largest_added + 1
                                                              : file.model_size;
  if (token.id == expected) return absl::OkStatus();
  return Invalid(absl::StrCat("added token ", Quoted(token.content), " has id ", token.id,
                              ", but Hugging Face would load it as ", expected,
                              "; save the tokenizer again with save_pretrained"));
}

// tokenizers matches a `normalized` token in its normalized form, and gives that form back.
void NormalizeAdded(AddedToken* token, TokenizerFile* file) {
  if (!token->normalized || !file->pipeline.nfc) return;
  std::string storage;
  token->content = std::string(NormalizeNfc(token->content, &storage));
  file->tokens[token->id] = token->content;
  file->bytes[token->id] = TokenToBytes(token->content).value_or(token->content);
}

absl::Status ReadAddedTokens(element document, TokenizerFile* file) {
  simdjson::dom::array tokens;
  if (document["added_tokens"].get(tokens) != simdjson::SUCCESS) return absl::OkStatus();
  int32_t largest = -1;
  for (const element entry : tokens) {
    AddedToken token;
    int64_t id = 0;
    std::string_view content;
    if (entry["id"].get(id) != simdjson::SUCCESS ||
        entry["content"].get(content) != simdjson::SUCCESS || id < 0 || id >= kMaxId) {
      return Invalid(absl::StrCat("added_tokens: entry ", file->added.size(),
                                  " has no usable id and content"));
    }
    if (content.empty()) continue;
    token.id = static_cast<int32_t>(id);
    token.content = std::string(content);
    token.special = Get(entry, "special", false);
    token.normalized = Get(entry, "normalized", !token.special);
    token.lstrip = Get(entry, "lstrip", false);
    token.rstrip = Get(entry, "rstrip", false);
    token.single_word = Get(entry, "single_word", false);
    RETURN_IF_ERROR(CheckAddedId(token, largest, *file));
    largest = std::max(largest, token.id);
    if (!file->ids.contains(token.content)) {
      RETURN_IF_ERROR(AddToken(token.content, token.id, file));
    }
    NormalizeAdded(&token, file);
    file->added.push_back(std::move(token));
  }
  return absl::OkStatus();
}

absl::Status ReadTokenizerJson(const std::string& text, TokenizerFile* file) {
  simdjson::dom::parser parser;
  ASSIGN_OR_RETURN(const element document, Parse(text, &parser));
  element model;
  if (document["model"].get(model) != simdjson::SUCCESS || !model.is_object()) {
    return Invalid("no object 'model'; is this a tokenizer.json?");
  }
  RETURN_IF_ERROR(CheckModel(model));
  ASSIGN_OR_RETURN(file->pipeline, ReadPipelineSpec(document));
  RETURN_IF_ERROR(ReadVocabulary(model, file));
  RETURN_IF_ERROR(ReadMerges(model, file));
  return ReadAddedTokens(document, file);
}

// A token is a string, {"content": "..."}, or null. nullopt: none.
std::optional<std::string> ConfigToken(element config, std::string_view key) {
  std::string_view content;
  if (config[key].get(content) == simdjson::SUCCESS ||
      config[key]["content"].get(content) == simdjson::SUCCESS) {
    return std::string(content);
  }
  return std::nullopt;
}

absl::Status ReadConfigId(element config, std::string_view key, const TokenizerFile& file,
                          int32_t* id) {
  const std::optional<std::string> token = ConfigToken(config, key);
  if (!token.has_value()) return absl::OkStatus();
  const auto found = file.ids.find(*token);
  if (found == file.ids.end()) {
    return Invalid(absl::StrCat(std::string(key), " is ", Quoted(*token),
                                ", which tokenizer.json does not have; save the tokenizer again "
                                "with save_pretrained, or correct the key"));
  }
  *id = found->second;
  return absl::OkStatus();
}

// transformers adds to the tokenizer what added_tokens_decoder lists and tokenizer.json lacks: such
// a pair of files does not say one thing, so it is refused.
absl::Status CheckAddedTokensDecoder(element config, const TokenizerFile& file) {
  simdjson::dom::object decoder;
  if (config["added_tokens_decoder"].get(decoder) != simdjson::SUCCESS) return absl::OkStatus();
  for (const auto field : decoder) {
    const std::string_view content = Get<std::string_view>(field.value, "content", "");
    const auto found = file.ids.find(absl::string_view(content.data(), content.size()));
    const std::string id = found == file.ids.end() ? "none" : absl::StrCat(found->second);
    if (id != field.key) {
      return Invalid(absl::StrCat("added_tokens_decoder gives ", Quoted(content), " the id ",
                                  std::string(field.key), ", tokenizer.json gives it ", id,
                                  "; save the tokenizer again with save_pretrained"));
    }
  }
  return absl::OkStatus();
}

// A string, or a list of {"name", "template"} of which "default" counts.
std::string ReadChatTemplate(element config) {
  std::string_view text;
  if (config["chat_template"].get(text) == simdjson::SUCCESS) return std::string(text);
  simdjson::dom::array named;
  if (config["chat_template"].get(named) != simdjson::SUCCESS) return "";
  for (const element entry : named) {
    if (Get<std::string_view>(entry, "name", "") == "default") {
      return std::string(Get<std::string_view>(entry, "template", ""));
    }
  }
  return "";
}

absl::Status ReadConfig(const std::string& text, TokenizerFile* file) {
  simdjson::dom::parser parser;
  ASSIGN_OR_RETURN(const element config, Parse(text, &parser));
  RETURN_IF_ERROR(CheckAddedTokensDecoder(config, *file));
  RETURN_IF_ERROR(ReadConfigId(config, "eos_token", *file, &file->eos_id));
  RETURN_IF_ERROR(ReadConfigId(config, "bos_token", *file, &file->bos_id));
  RETURN_IF_ERROR(ReadConfigId(config, "pad_token", *file, &file->pad_id));
  file->chat_template = ReadChatTemplate(config);
  return absl::OkStatus();
}

absl::Status WithPath(const std::string& path, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

}  // namespace

absl::StatusOr<TokenizerFile> ReadTokenizerFile(const std::string& path) {
  TokenizerFile file;
  ASSIGN_OR_RETURN(file.path, FindTokenizerJson(path));
  ASSIGN_OR_RETURN(const std::string json, ReadMaybeGzip(file.path));
  RETURN_IF_ERROR(WithPath(file.path, ReadTokenizerJson(json, &file)));
  const fs::path config_path = fs::path(file.path).parent_path() / "tokenizer_config.json";
  std::string config;
  std::error_code ignored;
  if (fs::exists(config_path, ignored)) {
    ASSIGN_OR_RETURN(config, ReadMaybeGzip(config_path.string()));
    RETURN_IF_ERROR(WithPath(config_path.string(), ReadConfig(config, &file)));
  }
  file.fingerprint = ToHex(Sha256(absl::StrCat(json.size(), "\n", json, config)));
  return file;
}

}  // namespace coxswain::data
