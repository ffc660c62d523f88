#include "controller/text/tokenizer/file/read_bpe_model.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "controller/text/tokenizer/file/quoted.h"
#include "controller/text/tokenizer/steps/step_fields.h"
#include "controller/text/tokenizer/unicode/byte_alphabet.h"

namespace coxswain::data {
namespace {

using simdjson::dom::element;

absl::Status CheckModel(element model) {
  const std::string type(Field<std::string_view>(model, "type", "BPE"));
  if (type != "BPE") {
    return absl::InvalidArgumentError(
        absl::StrCat("model type ", Quoted(type),
                     " is not supported; supported: BPE, byte-level or with byte_fallback"));
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const std::string_view affix = Field<std::string_view>(model, key, "");
    if (!affix.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("model.", key, " is ", Quoted(affix), "; only an empty one is supported"));
    }
  }
  const double dropout = Field(model, "dropout", 0.0);
  if (dropout != 0.0) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.dropout is ", dropout, "; only 0 or null is supported"));
  }
  return absl::OkStatus();
}

absl::Status ReadVocabulary(element model, TokenizerFile* file) {
  simdjson::dom::object vocabulary;
  if (model["vocab"].get(vocabulary) != simdjson::SUCCESS) {
    return absl::InvalidArgumentError("model.vocab is missing or not an object");
  }
  const bool ignore_merges = Field(model, "ignore_merges", false);
  file->tokens.reserve(vocabulary.size());
  file->ids.reserve(vocabulary.size());
  for (const auto field : vocabulary) {
    int64_t id = 0;
    if (field.value.get(id) != simdjson::SUCCESS) {
      return absl::InvalidArgumentError(
          absl::StrCat("model.vocab: id of ", Quoted(field.key), " is not an integer"));
    }
    if (field.key.empty()) continue;  // can never be produced
    RETURN_IF_ERROR(file->AddToken(field.key, id));
    if (!ignore_merges) continue;
    std::optional<std::string> word(field.key);
    if (file->byte_level) word = TokenToBytes(field.key);
    if (word.has_value()) file->whole_words.emplace(*std::move(word), static_cast<int32_t>(id));
  }
  file->model_size = static_cast<int32_t>(vocabulary.size());
  return absl::OkStatus();
}

absl::Status ReadByteAlphabet(TokenizerFile* file) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string character = ByteToCharacter(static_cast<uint8_t>(byte));
    file->byte_ids[byte] = file->IdOf(character);
    if (file->byte_ids[byte] >= 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("model.vocab has no token for byte ", byte, " (",
                                                   Quoted(character),
                                                   "); byte-level BPE needs all 256"));
  }
  return absl::OkStatus();
}

// What becomes of characters that the vocabulary does not have.
absl::Status ReadFallback(element model, TokenizerFile* file) {
  file->byte_ids.fill(-1);
  if (Field(model, "byte_fallback", false)) {
    for (int byte = 0; byte < 256; ++byte) {
      file->byte_ids[byte] = file->IdOf(absl::StrFormat("<0x%02X>", byte));
    }
  }
  file->fuse_unknown = Field(model, "fuse_unk", false);
  const std::string unknown = TextField(model, "unk_token");
  if (unknown.empty()) return absl::OkStatus();
  file->unknown_id = file->IdOf(unknown);
  if (file->unknown_id >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("model.unk_token is ", Quoted(unknown), ", which model.vocab does not have"));
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
    return absl::InvalidArgumentError("model.merges is missing or not an array");
  }
  file->rules.reserve(merges.size());
  std::string joined;
  for (const element merge : merges) {
    std::string_view left;
    std::string_view right;
    if (!ReadMergePair(merge, &left, &right)) {
      return absl::InvalidArgumentError(absl::StrCat("model.merges: entry ", file->rules.size(),
                                                     " is neither \"a b\" nor [\"a\", \"b\"]"));
    }
    joined.assign(left).append(right);
    Bpe::Rule rule{};
    for (const auto& [token, id] : {std::pair<std::string_view, int32_t*>{left, &rule.left},
                                    {right, &rule.right},
                                    {joined, &rule.merged}}) {
      *id = file->IdOf(token);
      if (*id < 0) {
        return absl::InvalidArgumentError(absl::StrCat("model.merges: entry ", file->rules.size(),
                                                       " needs token ", Quoted(token),
                                                       ", which model.vocab does not have"));
      }
    }
    rule.rank = static_cast<int32_t>(file->rules.size());
    file->rules.push_back(rule);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadBpeModel(element model, TokenizerFile* file) {
  RETURN_IF_ERROR(CheckModel(model));
  RETURN_IF_ERROR(ReadVocabulary(model, file));
  RETURN_IF_ERROR(file->byte_level ? ReadByteAlphabet(file) : ReadFallback(model, file));
  return ReadMerges(model, file);
}

}  // namespace coxswain::data
