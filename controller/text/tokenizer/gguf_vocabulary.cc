#include "controller/text/tokenizer/gguf_vocabulary.h"

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/files/read_file.h"
#include "common/status_macros.h"
#include "controller/text/tokenizer/file/sentencepiece_model.h"
#include "controller/text/tokenizer/tokenizer.h"

namespace coxswain::data {
namespace {

using Json = nlohmann::json;

constexpr float kScoreOfPadding = -10000, kScoreOfAdded = -1000;
constexpr char kSpaceMark[] = "\xe2\x96\x81";  // U+2581

// The file as an object; empty where it is not there.
absl::StatusOr<Json> ReadJson(const std::string& path, int64_t max_bytes) {
  const absl::StatusOr<std::string> text = ReadFile(path, max_bytes);
  if (absl::IsNotFound(text.status())) return Json::object();
  RETURN_IF_ERROR(text.status());
  Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (json.is_object()) return json;
  return absl::InvalidArgumentError(absl::StrCat(path, " is not a JSON object"));
}

// The member; a null where there is none.
const Json& Member(const Json& object, const char* key) {
  static const auto* const kNone = new Json();
  const auto found = object.find(key);
  return found == object.end() ? *kNone : *found;
}

// How llama.cpp calls a cut into words. Source: llama-vocab.cpp, load of tokenizer.ggml.pre.
struct KnownPre {
  std::string_view name;
  std::string_view regex;  // of the Split; empty: ByteLevel's own
  bool digits = false;     // each digit is a word
};
constexpr std::array<KnownPre, 4> kKnownPres = {{
    {"llama-bpe",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {"qwen2",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {"gpt-2", ""},
    {"smollm", "", true},
}};

absl::StatusOr<std::string> PreOf(const std::string& path, const Json& tokenizer) {
  Json step = Member(tokenizer, "pre_tokenizer");
  const Json steps =
      step.value("type", "") == "Sequence" ? Member(step, "pretokenizers") : Json::array({step});
  std::string regex;
  bool digits = false, other = false, own = false;
  for (const Json& one : steps) {
    const std::string type = one.value("type", "");
    if (type == "Split") {
      other = other || !regex.empty() || one.value("behavior", "") != "Isolated" ||
              one.value("invert", false);
      regex = Member(Member(one, "pattern"), "Regex").is_string() ? one["pattern"]["Regex"] : "?";
    } else if (type == "Digits") {
      digits = one.value("individual_digits", false);
      other = other || !digits;
    } else if (type == "ByteLevel") {
      own = one.value("use_regex", true);
      other = other || one.value("add_prefix_space", true);
    } else {
      other = true;
    }
  }
  std::vector<std::string> names;
  for (const KnownPre& known : kKnownPres) {
    const bool same = known.regex == regex && known.digits == digits && own == regex.empty();
    if (same && !other) return std::string(known.name);
    names.emplace_back(known.name);
  }
  return absl::UnimplementedError(
      absl::StrCat(path, ": pre_tokenizer is none that a GGUF is written of; these are those of ",
                   absl::StrJoin(names, ", ")));
}

// What llama.cpp takes for a control token whatever the tokenizer says.
bool LooksSpecial(const std::string& token) {
  constexpr char kBar[] = "\xef\xbd\x9c";  // U+FF5C
  return token == "<pad>" || token == "<mask>" || token == "<2mass>" || token == "[@BOS@]" ||
         (absl::StartsWith(token, "<|") && absl::EndsWith(token, "|>")) ||
         (absl::StartsWith(token, absl::StrCat("<", kBar)) &&
          absl::EndsWith(token, absl::StrCat(kBar, ">"))) ||
         (absl::StartsWith(token, "<unused") && absl::EndsWith(token, ">"));
}

GgufVocabulary Unfilled(int64_t rows) {
  GgufVocabulary vocabulary;
  for (int64_t i = 0; i < rows; ++i) vocabulary.tokens.push_back(absl::StrCat("[PAD", i, "]"));
  vocabulary.types.assign(static_cast<size_t>(rows), GgufVocabulary::kUnused);
  return vocabulary;
}

absl::Status CheckId(const std::string& path, const std::string& token, int64_t id,
                     const GgufVocabulary& vocabulary) {
  const auto rows = static_cast<int64_t>(vocabulary.tokens.size());
  if (id >= 0 && id < rows) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": token \"", token, "\" has id ", id,
                                                 ", the embedding has ", rows, " rows"));
}

void PutAdded(int64_t id, const std::string& content, bool special, GgufVocabulary* vocabulary) {
  const auto at = static_cast<size_t>(id);
  const bool control = special || LooksSpecial(content);
  vocabulary->types[at] = control ? GgufVocabulary::kControl : GgufVocabulary::kUserDefined;
  vocabulary->tokens[at] = control ? content : absl::StrReplaceAll(content, {{kSpaceMark, " "}});
  if (!vocabulary->scores.empty()) vocabulary->scores[at] = kScoreOfAdded;
}

// "a b", or since transformers 4.45 ["a", "b"], in which a space is written as in a token.
std::string MergeText(const Json& merge) {
  if (merge.is_string()) return merge;
  const auto part = [](const std::string& text) {
    return absl::StrReplaceAll(text, {{" ", "\xc4\xa0"}});  // U+0120, byte 0x20 of the alphabet
  };
  return absl::StrCat(part(merge.at(0)), " ", part(merge.at(1)));
}

absl::StatusOr<GgufVocabulary> ByteLevel(const std::string& path, const Json& tokenizer,
                                         int64_t rows) {
  GgufVocabulary vocabulary = Unfilled(rows);
  vocabulary.model = "gpt2";
  ASSIGN_OR_RETURN(vocabulary.pre, PreOf(path, tokenizer));
  for (const auto& [token, number] : tokenizer["model"]["vocab"].items()) {
    const int64_t id = number;
    RETURN_IF_ERROR(CheckId(path, token, id, vocabulary));
    vocabulary.tokens[static_cast<size_t>(id)] = token;
    vocabulary.types[static_cast<size_t>(id)] = GgufVocabulary::kNormal;
  }
  for (const Json& added : Member(tokenizer, "added_tokens")) {
    const int64_t id = added.at("id");
    const std::string content = added.at("content");
    RETURN_IF_ERROR(CheckId(path, content, id, vocabulary));
    PutAdded(id, content, added.value("special", false), &vocabulary);
  }
  for (const Json& merge : Member(tokenizer["model"], "merges")) {
    vocabulary.merges.push_back(MergeText(merge));
  }
  return vocabulary;
}

int32_t TypeOf(SentencePieceModel::Type type) {
  switch (type) {
    case SentencePieceModel::Type::kUnknown:
      return GgufVocabulary::kUnknown;
    case SentencePieceModel::Type::kControl:
      return GgufVocabulary::kControl;
    case SentencePieceModel::Type::kUnused:
      return GgufVocabulary::kUnused;
    case SentencePieceModel::Type::kByte:
      return GgufVocabulary::kByte;
    case SentencePieceModel::Type::kNormal:
    case SentencePieceModel::Type::kUserDefined:
      break;
  }
  return GgufVocabulary::kNormal;
}

// Those of tokenizer_config.json, or of added_tokens.json without.
absl::Status AddTokens(const std::string& directory, const Json& settings,
                       GgufVocabulary* vocabulary) {
  const std::string path = directory + "/added_tokens.json";
  ASSIGN_OR_RETURN(const Json listed, ReadJson(path, kMaxTokenizerBytes));
  for (const auto& [content, id] : listed.items()) {
    RETURN_IF_ERROR(CheckId(path, content, id, *vocabulary));
    PutAdded(id, content, /*special=*/false, vocabulary);
  }
  for (const auto& [number, added] : Member(settings, "added_tokens_decoder").items()) {
    int64_t id = -1;
    if (!absl::SimpleAtoi(number, &id)) id = -1;
    const std::string content = added.at("content");
    RETURN_IF_ERROR(CheckId(directory + "/tokenizer_config.json", content, id, *vocabulary));
    PutAdded(id, content, added.value("special", false), vocabulary);
  }
  return absl::OkStatus();
}

absl::StatusOr<GgufVocabulary> SentencePieces(const std::string& directory, const Json& settings,
                                              int64_t rows) {
  const std::string path = directory + "/tokenizer.model";
  const absl::StatusOr<std::string> bytes = ReadFile(path, kMaxTokenizerBytes);
  if (absl::IsNotFound(bytes.status())) {
    return absl::UnimplementedError(
        absl::StrCat(directory, ": a GGUF is written of a byte-level tokenizer.json, or of a ",
                     "tokenizer.model, and neither is there; add the base's tokenizer.model"));
  }
  RETURN_IF_ERROR(bytes.status());
  ASSIGN_OR_RETURN(const SentencePieceModel model, ParseSentencePieceModel(*bytes));
  if (model.kind != SentencePieceModel::Kind::kBpe) {
    return absl::UnimplementedError(absl::StrCat(
        path, ": a GGUF is written of a SentencePiece model of kind BPE, this is another"));
  }
  GgufVocabulary vocabulary = Unfilled(rows);
  vocabulary.model = "llama";
  vocabulary.pre = "default";
  vocabulary.scores.assign(static_cast<size_t>(rows), kScoreOfPadding);
  if (!model.add_dummy_prefix) vocabulary.add_space_prefix = false;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePieceModel::Piece& piece = model.pieces[id];
    RETURN_IF_ERROR(CheckId(path, piece.text, static_cast<int64_t>(id), vocabulary));
    vocabulary.tokens[id] = piece.text;
    vocabulary.scores[id] = piece.score;
    vocabulary.types[id] = TypeOf(piece.type);
  }
  RETURN_IF_ERROR(AddTokens(directory, settings, &vocabulary));
  return vocabulary;
}

std::string TokenText(const Json& settings, const char* key) {
  const Json token = Member(settings, key);
  if (token.is_string()) return token;
  return token.is_object() ? token.value("content", "") : "";
}

// A template of the post-processor puts the token of `key` at one end of a text; nothing: it says
// nothing of that end.
std::optional<bool> Around(const Json& tokenizer, const Json& settings, bool first,
                           const char* key) {
  const Json post = Member(tokenizer, "post_processor");
  Json steps = Json::array();
  if (post.is_object())
    steps = post.contains("processors") ? post["processors"] : Json::array({post});
  std::optional<bool> around;
  for (const Json& step : steps) {
    const Json single = Member(step, "single");
    if (step.value("type", "") != "TemplateProcessing" || single.size() < 2) continue;
    const Json special = Member(first ? single.front() : single.back(), "SpecialToken");
    if (special.is_object()) around = special.value("id", "") == TokenText(settings, key);
  }
  return around;
}

// Ids that the tokenizer names, else those of config.json that have a row.
void PutEnds(const Tokenizer& known, const Json& tokenizer, const Json& settings,
             const Json& config, GgufVocabulary* vocabulary) {
  const auto id = [&](int32_t named, const char* key) -> std::optional<uint32_t> {
    const auto rows = static_cast<int64_t>(vocabulary->tokens.size());
    if (named >= 0 && named < rows) return static_cast<uint32_t>(named);
    const Json value = Member(config, key);
    if (!value.is_number_integer() || value.get<int64_t>() < 0 || value.get<int64_t>() >= rows) {
      return std::nullopt;
    }
    return value.get<uint32_t>();
  };
  vocabulary->bos = id(known.bos_id(), "bos_token_id");
  vocabulary->eos = id(known.eos_id(), "eos_token_id");
  vocabulary->pad = id(known.pad_id(), "pad_token_id");
  vocabulary->add_bos = Around(tokenizer, settings, /*first=*/true, "bos_token");
  vocabulary->add_eos = Around(tokenizer, settings, /*first=*/false, "eos_token");
  const auto said = [&](const char* key, std::optional<bool>* value) {
    const Json told = Member(settings, key);
    if (told.is_boolean()) *value = told.get<bool>();
  };
  said("add_bos_token", &vocabulary->add_bos);
  said("add_eos_token", &vocabulary->add_eos);
  if (vocabulary->model == "llama") said("add_prefix_space", &vocabulary->add_space_prefix);
}

bool IsByteLevel(const Json& tokenizer) {
  if (Member(tokenizer, "model").value("type", "") != "BPE") return false;
  const Json decoder = Member(tokenizer, "decoder");
  return decoder.is_object() && decoder.value("type", "") == "ByteLevel";
}

// Throws Json::exception where a member has another type.
absl::StatusOr<GgufVocabulary> VocabularyOf(const Tokenizer& known, const std::string& directory,
                                            const std::string& config_path, int64_t rows) {
  const std::string path = directory + "/tokenizer.json";
  ASSIGN_OR_RETURN(const Json tokenizer, ReadJson(path, kMaxTokenizerBytes));
  ASSIGN_OR_RETURN(const Json settings,
                   ReadJson(directory + "/tokenizer_config.json", kMaxConfigBytes));
  ASSIGN_OR_RETURN(const Json config, ReadJson(config_path, kMaxConfigBytes));
  absl::StatusOr<GgufVocabulary> vocabulary = known.byte_level() && IsByteLevel(tokenizer)
                                                  ? ByteLevel(path, tokenizer, rows)
                                                  : SentencePieces(directory, settings, rows);
  RETURN_IF_ERROR(vocabulary.status());
  PutEnds(known, tokenizer, settings, config, &*vocabulary);
  vocabulary->chat_template = known.chat_template();
  return vocabulary;
}

}  // namespace

absl::StatusOr<GgufVocabulary> ReadGgufVocabulary(const std::string& directory,
                                                  const std::string& config_path, int64_t rows) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> known, Tokenizer::Load(directory));
  try {
    return VocabularyOf(*known, directory, config_path, rows);
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(directory, ": a member of the tokenizer's files is of another type than a ",
                     "tokenizer has (", error.what(), "); take these files from the base again"));
  }
}

}  // namespace coxswain::data
