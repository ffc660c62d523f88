#include "controller/data/tokenizer/pipeline_spec.h"

#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace coxswain::data {
namespace {

using simdjson::dom::element;

// Source: tokenizers' pre_tokenizers/byte_level.rs.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// The member, unless it is absent or null.
std::optional<element> Find(element object, std::string_view key) {
  element value;
  if (object[key].get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
  return value;
}

std::string Text(element object, std::string_view key) {
  std::string_view text;
  if (object[key].get(text) != simdjson::SUCCESS) return "";
  return std::string(text);
}

bool Flag(element object, std::string_view key, bool absent) {
  bool flag = absent;
  if (object[key].get(flag) != simdjson::SUCCESS) return absent;
  return flag;
}

absl::Status Unsupported(std::string_view step, const std::string& found,
                         std::string_view supported) {
  return absl::InvalidArgumentError(absl::StrCat(
      std::string(step), " ", found, " is not supported; supported: ", std::string(supported)));
}

absl::Status ReadNormalizer(element normalizer, bool* nfc) {
  const std::string type = Text(normalizer, "type");
  if (type == "NFC") {
    *nfc = true;
    return absl::OkStatus();
  }
  simdjson::dom::array steps;
  if (type == "Sequence" && normalizer["normalizers"].get(steps) == simdjson::SUCCESS) {
    for (const element step : steps) RETURN_IF_ERROR(ReadNormalizer(step, nfc));
    return absl::OkStatus();
  }
  const bool sentence_piece = type == "Prepend" || type == "Replace" || type == "Precompiled";
  return Unsupported("normalizer", absl::StrCat("'", type, "'"),
                     sentence_piece ? "NFC or none (this is a SentencePiece-style tokenizer; only "
                                      "byte-level BPE is read)"
                                    : "NFC or none");
}

absl::StatusOr<SplitSpec> ReadSplit(element step) {
  SplitSpec split;
  element pattern;
  std::string_view text;
  if (step["pattern"].get(pattern) != simdjson::SUCCESS) {
    return absl::InvalidArgumentError("pre_tokenizer 'Split' has no pattern");
  }
  if (pattern["Regex"].get(text) != simdjson::SUCCESS) {
    if (pattern["String"].get(text) != simdjson::SUCCESS) {
      return absl::InvalidArgumentError(
          "pre_tokenizer 'Split': pattern has neither Regex nor String");
    }
    split.literal = true;
  }
  split.pattern = std::string(text);
  const std::string behavior = Text(step, "behavior");
  const bool invert = Flag(step, "invert", false);
  if (behavior == "Removed") {
    split.drop_matches = !invert;
    split.drop_gaps = invert;
  } else if (behavior != "Isolated") {
    return Unsupported("pre_tokenizer 'Split' with behavior", absl::StrCat("'", behavior, "'"),
                       "Isolated, Removed");
  }
  return split;
}

// Appends one step; *byte_level turns true at ByteLevel, which must come last.
absl::Status ReadPreTokenizer(element step, PipelineSpec* spec, bool* byte_level) {
  const std::string type = Text(step, "type");
  simdjson::dom::array steps;
  if (type == "Sequence" && step["pretokenizers"].get(steps) == simdjson::SUCCESS) {
    for (const element inner : steps) RETURN_IF_ERROR(ReadPreTokenizer(inner, spec, byte_level));
    return absl::OkStatus();
  }
  if (*byte_level) {
    return Unsupported("pre_tokenizer", absl::StrCat("'", type, "' after ByteLevel"),
                       "ByteLevel as the last step");
  }
  if (type == "Split") {
    ASSIGN_OR_RETURN(SplitSpec split, ReadSplit(step));
    spec->splits.push_back(std::move(split));
    return absl::OkStatus();
  }
  if (type == "Digits") {
    const bool each = Flag(step, "individual_digits", false);
    spec->splits.push_back({.pattern = each ? R"(\p{N})" : R"(\p{N}+)"});
    return absl::OkStatus();
  }
  if (type == "ByteLevel") {
    *byte_level = true;
    if (Flag(step, "add_prefix_space", true)) {
      spec->prefix_space_stage = static_cast<int>(spec->splits.size());
    }
    if (Flag(step, "use_regex", true))
      spec->splits.push_back({.pattern = std::string(kGpt2Pattern)});
    return absl::OkStatus();
  }
  return Unsupported("pre_tokenizer", absl::StrCat("'", type, "'"),
                     "Split, Digits and ByteLevel, alone or in a Sequence");
}

bool IsByteLevelDecoder(element decoder) {
  const std::string type = Text(decoder, "type");
  simdjson::dom::array steps;
  if (type == "Sequence" && decoder["decoders"].get(steps) == simdjson::SUCCESS) {
    return steps.size() == 1 && IsByteLevelDecoder(steps.at(0).value());
  }
  return type == "ByteLevel";
}

}  // namespace

absl::StatusOr<PipelineSpec> ReadPipelineSpec(element tokenizer_json) {
  PipelineSpec spec;
  if (const auto normalizer = Find(tokenizer_json, "normalizer")) {
    RETURN_IF_ERROR(ReadNormalizer(*normalizer, &spec.nfc));
  }
  bool byte_level = false;
  if (const auto pre_tokenizer = Find(tokenizer_json, "pre_tokenizer")) {
    RETURN_IF_ERROR(ReadPreTokenizer(*pre_tokenizer, &spec, &byte_level));
  }
  if (!byte_level) {
    return absl::InvalidArgumentError(
        "pre_tokenizer has no ByteLevel step, so this is not byte-level BPE (a SentencePiece-style "
        "tokenizer?); supported: Split, Digits and ByteLevel, alone or in a Sequence");
  }
  const auto decoder = Find(tokenizer_json, "decoder");
  if (!decoder.has_value() || !IsByteLevelDecoder(*decoder)) {
    return Unsupported("decoder", "other than ByteLevel", "ByteLevel");
  }
  return spec;
}

}  // namespace coxswain::data
