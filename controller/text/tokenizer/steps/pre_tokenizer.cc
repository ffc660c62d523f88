#include "controller/text/tokenizer/steps/pre_tokenizer.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "controller/text/tokenizer/steps/step_fields.h"
#include "controller/text/tokenizer/unicode/byte_alphabet.h"

namespace coxswain::data {
namespace {

using simdjson::dom::element;
using Behavior = PreTokenizer::Behavior;

// Source: tokenizers' pre_tokenizers/byte_level.rs.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// \w of Rust's regex crate, as a class. Source: Unicode TR18, annex C.
constexpr std::string_view kWordClass =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200C}\x{200D}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149})"
    R"(\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})";
// Punctuation of Unicode 14 that Hugging Face's Punctuation does not know; U+166D and U+111C9 are
// punctuation to it alone. Source: printed by
// make_late_characters.py.
constexpr std::string_view kLatePunctuation =
    R"(\x{61D}\x{9FD}\x{A76}\x{C77}\x{C84}\x{1B7D}-\x{1B7E}\x{2E43}-\x{2E4F})"
    R"(\x{2E52}-\x{2E5D}\x{10EAD}\x{10F55}-\x{10F59}\x{10F86}-\x{10F89}\x{1144B}-\x{1144F})"
    R"(\x{1145A}-\x{1145B}\x{1145D}\x{11660}-\x{1166C}\x{116B9}\x{1183B}\x{11944}-\x{11946})"
    R"(\x{119E2}\x{11A3F}-\x{11A46}\x{11A9A}-\x{11A9C}\x{11A9E}-\x{11AA2}\x{11C41}-\x{11C45})"
    R"(\x{11C70}-\x{11C71}\x{11EF7}-\x{11EF8}\x{11FFF}\x{12FF1}-\x{12FF2}\x{16E97}-\x{16E9A})"
    R"(\x{16FE2}\x{1E95E}-\x{1E95F})";
constexpr std::string_view kSupportedSteps =
    "Split, Metaspace, ByteLevel, Digits, Punctuation, Whitespace and WhitespaceSplit, alone or in "
    "a Sequence";
constexpr std::string_view kSupportedBehaviors =
    "Isolated, Removed, Contiguous, MergedWithPrevious, MergedWithNext";

// Files write "MergedWithNext", the library's own setters "merged_with_next".
std::optional<Behavior> ParseBehavior(std::string name) {
  name.erase(std::remove(name.begin(), name.end(), '_'), name.end());
  for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  if (name == "isolated") return Behavior::kIsolated;
  if (name == "removed") return Behavior::kRemoved;
  if (name == "contiguous") return Behavior::kContiguous;
  if (name == "mergedwithprevious") return Behavior::kMergedWithPrevious;
  if (name == "mergedwithnext") return Behavior::kMergedWithNext;
  return std::nullopt;
}

absl::StatusOr<Behavior> ReadBehavior(const std::string& step, const std::string& name) {
  if (const std::optional<Behavior> behavior = ParseBehavior(name)) return *behavior;
  return UnsupportedStep(absl::StrCat("pre_tokenizer '", step, "' with behavior"),
                         absl::StrCat("'", name, "'"), kSupportedBehaviors);
}

}  // namespace

bool PreTokenizer::keeps_text() const {
  return std::all_of(stages_.begin(), stages_.end(), [](const Stage& stage) {
    return stage.space.empty() && stage.prefix == Prefix::kNever &&
           stage.behavior != Behavior::kRemoved;
  });
}

bool PreTokenizer::looks_for_first() const {
  return std::any_of(stages_.begin(), stages_.end(),
                     [](const Stage& stage) { return stage.prefix == Prefix::kFirst; });
}

absl::Status PreTokenizer::AddSplit(std::string_view pattern, Behavior behavior, bool invert) {
  Stage stage;
  ASSIGN_OR_RETURN(stage.split, SplitRegex::Compile(pattern));
  stage.behavior = behavior;
  stage.invert = invert;
  stages_.push_back(std::move(stage));
  return absl::OkStatus();
}

absl::Status PreTokenizer::ReadSplit(element step) {
  Stage stage;
  ASSIGN_OR_RETURN(stage.split, ReadPattern(step));
  ASSIGN_OR_RETURN(stage.behavior, ReadBehavior("Split", TextField(step, "behavior")));
  stage.invert = Field(step, "invert", false);
  stages_.push_back(std::move(stage));
  return absl::OkStatus();
}

absl::Status PreTokenizer::ReadMetaspace(element step) {
  Stage stage;
  stage.space = TextField(step, "replacement");
  std::string scheme(Field<std::string_view>(step, "prepend_scheme", "always"));
  if (!Field(step, "add_prefix_space", true)) scheme = "never";
  if (stage.space.empty() || (scheme != "always" && scheme != "first" && scheme != "never")) {
    return UnsupportedStep("pre_tokenizer 'Metaspace' with replacement",
                           absl::StrCat("'", stage.space, "' and prepend_scheme '", scheme, "'"),
                           "one character; always, first, never");
  }
  stage.prefix = scheme == "always"  ? Prefix::kAlways
                 : scheme == "first" ? Prefix::kFirst
                                     : Prefix::kNever;
  stage.cut_before_space = Field(step, "split", true);
  if (stage.prefix == Prefix::kFirst && !stages_.empty()) {
    return UnsupportedStep("pre_tokenizer 'Metaspace' with prepend_scheme", "'first'",
                           "'first' in the first step, 'always' and 'never' in any");
  }
  stages_.push_back(std::move(stage));
  return absl::OkStatus();
}

absl::Status PreTokenizer::ReadByteLevel(element step) {
  byte_level_ = true;
  Stage stage;
  if (Field(step, "add_prefix_space", true)) {
    stage.space = " ";
    stage.prefix = Prefix::kAlways;
  }
  if (Field(step, "use_regex", true)) {
    ASSIGN_OR_RETURN(stage.split, SplitRegex::Compile(kGpt2Pattern));
  }
  if (stage.split != nullptr || !stage.space.empty()) stages_.push_back(std::move(stage));
  return absl::OkStatus();
}

absl::Status PreTokenizer::Read(element step) {
  const std::string type = TextField(step, "type");
  simdjson::dom::array steps;
  if (type == "Sequence" && step["pretokenizers"].get(steps) == simdjson::SUCCESS) {
    for (const element inner : steps) RETURN_IF_ERROR(Read(inner));
    return absl::OkStatus();
  }
  if (byte_level_ && (type == "ByteLevel" || type == "Metaspace")) {
    return UnsupportedStep("pre_tokenizer", absl::StrCat("'", type, "' after ByteLevel"),
                           "Split, Digits, Punctuation, Whitespace and WhitespaceSplit");
  }
  const bool enters_alphabet = byte_level_ && !in_alphabet_;
  const size_t before = stages_.size();
  RETURN_IF_ERROR(ReadStep(type, step));
  if (enters_alphabet) {
    stages_[before].write_alphabet = true;
    in_alphabet_ = true;
  }
  return absl::OkStatus();
}

absl::Status PreTokenizer::ReadStep(const std::string& type, element step) {
  if (type == "Split") return ReadSplit(step);
  if (type == "Metaspace") return ReadMetaspace(step);
  if (type == "ByteLevel") return ReadByteLevel(step);
  if (type == "Digits") {
    const bool each = Field(step, "individual_digits", false);
    return AddSplit(each ? R"(\p{N})" : R"(\p{N}+)", Behavior::kIsolated, false);
  }
  if (type == "Punctuation") {
    const std::string name(Field<std::string_view>(step, "behavior", "Isolated"));
    ASSIGN_OR_RETURN(const Behavior behavior, ReadBehavior(type, name));
    Stage stage;
    ASSIGN_OR_RETURN(stage.split, SplitRegex::CompileAsWritten(
                                      absl::StrCat("(?![", std::string(kLatePunctuation), "])",
                                                   R"([\p{P}\x{166D}\x{111C9}$+<=>\^`|~])")));
    stage.behavior = behavior;
    stages_.push_back(std::move(stage));
    return absl::OkStatus();
  }
  if (type == "Whitespace") {
    const std::string pattern =
        absl::StrCat("[", std::string(kWordClass), "]+|[^", std::string(kWordClass), R"(\s]+)");
    return AddSplit(pattern, Behavior::kRemoved, true);
  }
  if (type == "WhitespaceSplit") return AddSplit(R"(\s)", Behavior::kRemoved, false);
  return UnsupportedStep("pre_tokenizer", absl::StrCat("'", type, "'"), kSupportedSteps);
}

void PreTokenizer::JoinParts(Behavior behavior, std::vector<Part>* parts) {
  const bool backwards = behavior == Behavior::kMergedWithNext;
  if (backwards) std::reverse(parts->begin(), parts->end());
  std::vector<Part> joined;
  bool previous = false;  // whether the part before was a match
  for (const Part& part : *parts) {
    const bool joins =
        behavior == Behavior::kContiguous ? part.match == previous : part.match && !previous;
    previous = part.match;
    if (!joins || joined.empty()) {
      joined.push_back(part);
    } else if (backwards) {
      joined.back().begin = part.begin;
    } else {
      joined.back().end = part.end;
    }
  }
  if (backwards) std::reverse(joined.begin(), joined.end());
  *parts = std::move(joined);
}

std::string_view PreTokenizer::WriteSpaces(const Stage& stage, std::string_view text, bool is_first,
                                           std::string* storage) {
  const bool rewrites = stage.space != " " && !stage.space.empty();
  const bool begins = text.starts_with(' ') || (rewrites && text.starts_with(stage.space));
  const bool prefix =
      !begins && (stage.prefix == Prefix::kAlways || (stage.prefix == Prefix::kFirst && is_first));
  if (!prefix && !(rewrites && text.find(' ') != std::string_view::npos)) return text;
  storage->reserve(text.size() + text.size() / 2 + stage.space.size());
  if (prefix) *storage = stage.space;
  if (!rewrites) return storage->append(text);
  size_t done = 0;
  for (size_t at = text.find(' '); at != std::string_view::npos; at = text.find(' ', done)) {
    storage->append(text.substr(done, at - done)).append(stage.space);
    done = at + 1;
  }
  return storage->append(text.substr(done));
}

std::string PreTokenizer::WriteAlphabet(std::string_view text) {
  std::string out;
  out.reserve(text.size() * 2);
  for (const char byte : text) out += ByteToCharacter(static_cast<uint8_t>(byte));
  return out;
}

std::string PreTokenizer::ReadAlphabet(std::string_view text) {
  return TokenToBytes(text).value_or(std::string());  // every character is of the alphabet
}

}  // namespace coxswain::data
