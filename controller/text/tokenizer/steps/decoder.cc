#include "controller/text/tokenizer/steps/decoder.h"

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/text/tokenizer/steps/step_fields.h"
#include "controller/text/tokenizer/unicode/byte_alphabet.h"
#include "controller/text/tokenizer/unicode/utf8.h"

namespace coxswain::data {
namespace {

using simdjson::dom::element;
using Kind = Decoder::Kind;
using Step = Decoder::Step;
using Tokens = std::vector<std::string>;

constexpr std::string_view kSupportedDecoders =
    "ByteLevel, ByteFallback, Fuse, Replace, Strip, Metaspace, alone or in a Sequence";
constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// The byte that "<0x0A>" spells. Rust reads a sign as a part of the number.
std::optional<char> SpelledByte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  std::string digits(token.substr(3, 2));
  if (digits[0] == '+') digits[0] = '0';
  if (!absl::ascii_isxdigit(digits[0]) || !absl::ascii_isxdigit(digits[1])) return std::nullopt;
  return static_cast<char>(std::strtol(digits.c_str(), nullptr, 16));
}

// Bytes that are no text become one replacement character each.
void AppendSpelledBytes(std::string* bytes, Tokens* out) {
  if (bytes->empty()) return;
  if (IsValidUtf8(*bytes)) {
    out->push_back(*bytes);
  } else {
    out->insert(out->end(), bytes->size(), std::string(kReplacementCharacter));
  }
  bytes->clear();
}

Tokens FallBackToBytes(Tokens tokens) {
  Tokens out;
  std::string bytes;
  for (std::string& token : tokens) {
    if (const std::optional<char> byte = SpelledByte(token)) {
      bytes.push_back(*byte);
      continue;
    }
    AppendSpelledBytes(&bytes, &out);
    out.push_back(std::move(token));
  }
  AppendSpelledBytes(&bytes, &out);
  return out;
}

std::string Concatenate(const Tokens& tokens) {
  std::string all;
  for (const std::string& token : tokens) all += token;
  return all;
}

std::string JoinByteLevel(const Tokens& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) bytes += TokenToBytes(token).value_or(token);
  return IsValidUtf8(bytes) ? bytes : ReplaceInvalidUtf8(bytes);
}

std::string ReplaceInToken(const Step& step, const std::string& token, RegexScratch* scratch) {
  std::string out;
  size_t done = 0;
  const auto replace = [&](size_t begin, size_t end) {
    out.append(token, done, begin - done).append(step.content);
    done = end;
    return absl::OkStatus();
  };
  // A token that overflows the pattern's stack is left as it is from there on.
  step.pattern->ForEachMatch(token, scratch, replace).IgnoreError();
  return out.append(token, done);
}

std::string StripToken(const Step& step, std::string_view token) {
  for (size_t i = 0; i < step.front && token.starts_with(step.content); ++i) {
    token.remove_prefix(step.content.size());
  }
  for (size_t i = 0; i < step.back && token.ends_with(step.content); ++i) {
    token.remove_suffix(step.content.size());
  }
  return std::string(token);
}

std::string WriteSpaces(const Step& step, bool is_first, std::string_view token) {
  std::string out;
  size_t done = 0;
  for (size_t at = token.find(step.content); at != std::string_view::npos;
       at = token.find(step.content, done)) {
    out.append(token.substr(done, at - done));
    if (!is_first || step.front == 0) out.push_back(' ');
    done = at + step.content.size();
  }
  return out.append(token.substr(done));
}

Tokens RunStep(const Step& step, Tokens tokens) {
  switch (step.kind) {
    case Kind::kByteLevel:
      return {JoinByteLevel(tokens)};
    case Kind::kByteFallback:
      return FallBackToBytes(std::move(tokens));
    case Kind::kFuse:
      return {Concatenate(tokens)};
    case Kind::kReplace: {
      RegexScratch scratch;
      for (std::string& token : tokens) token = ReplaceInToken(step, token, &scratch);
      return tokens;
    }
    case Kind::kStrip:
      for (std::string& token : tokens) token = StripToken(step, token);
      return tokens;
    case Kind::kMetaspace:
      break;
  }
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = WriteSpaces(step, i == 0, tokens[i]);
  return tokens;
}

absl::StatusOr<Step> ReadMetaspaceDecoder(element json) {
  const bool prefixed = Field(json, "add_prefix_space", true) &&
                        Field<std::string_view>(json, "prepend_scheme", "always") != "never";
  Step step{Kind::kMetaspace, TextField(json, "replacement")};
  step.front = prefixed ? 1 : 0;
  if (!step.content.empty()) return step;
  return absl::InvalidArgumentError("decoder 'Metaspace' has no replacement");
}

}  // namespace

absl::Status Decoder::Read(element decoder) {
  const std::string type = TextField(decoder, "type");
  simdjson::dom::array steps;
  if (type == "Sequence" && decoder["decoders"].get(steps) == simdjson::SUCCESS) {
    for (const element step : steps) RETURN_IF_ERROR(Read(step));
    return absl::OkStatus();
  }
  if (type == "ByteLevel" || type == "ByteFallback" || type == "Fuse") {
    Add({type == "Fuse"        ? Kind::kFuse
         : type == "ByteLevel" ? Kind::kByteLevel
                               : Kind::kByteFallback});
    return absl::OkStatus();
  }
  if (type == "Replace") {
    Step step{Kind::kReplace, TextField(decoder, "content")};
    ASSIGN_OR_RETURN(step.pattern, ReadPattern(decoder));
    Add(std::move(step));
    return absl::OkStatus();
  }
  if (type == "Strip") {
    Step step{Kind::kStrip, TextField(decoder, "content")};
    step.front = Field<uint64_t>(decoder, "start", 0);
    step.back = Field<uint64_t>(decoder, "stop", 0);
    if (step.content.empty()) return absl::InvalidArgumentError("decoder 'Strip' has no content");
    Add(std::move(step));
    return absl::OkStatus();
  }
  if (type == "Metaspace") {
    ASSIGN_OR_RETURN(Step step, ReadMetaspaceDecoder(decoder));
    Add(std::move(step));
    return absl::OkStatus();
  }
  return UnsupportedStep("decoder", absl::StrCat("'", type, "'"), kSupportedDecoders);
}

std::string Decoder::Decode(std::vector<std::string> tokens) const {
  for (const Step& step : steps_) tokens = RunStep(step, std::move(tokens));
  return Concatenate(tokens);
}

}  // namespace coxswain::data
