#include "controller/text/tokenizer/steps/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/text/tokenizer/steps/step_fields.h"
#include "controller/text/tokenizer/unicode/late_characters.h"
#include "controller/text/tokenizer/unicode/unicode_forms.h"
#include "controller/text/tokenizer/unicode/utf8.h"
#include "controller/text/tokenizer/unicode/white_space.h"

namespace coxswain::data {
namespace {

using simdjson::dom::element;
using Kind = Normalizer::Kind;
using Step = Normalizer::Step;

constexpr std::string_view kSupportedNormalizers =
    "NFC, NFD, NFKC, NFKD, Lowercase, Strip, Prepend, Replace, alone or in a Sequence";

std::optional<Kind> PlainKind(const std::string& type) {
  if (type == "NFC") return Kind::kNfc;
  if (type == "NFD") return Kind::kNfd;
  if (type == "NFKC") return Kind::kNfkc;
  if (type == "NFKD") return Kind::kNfkd;
  if (type == "Lowercase") return Kind::kLowercase;
  return std::nullopt;
}

absl::StatusOr<Step> ReadReplace(element json) {
  Step step{Kind::kReplace};
  step.content = TextField(json, "content");
  std::string_view literal;
  if (json["pattern"]["String"].get(literal) == simdjson::SUCCESS && !literal.empty()) {
    step.literal = std::string(literal);
    return step;
  }
  ASSIGN_OR_RETURN(step.pattern, ReadPattern(json));
  return step;
}

// Every character alone, without regard to its neighbours: Rust's char::to_lowercase.
void Lowercase(std::string_view text, std::string* out) {
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = CodePointAt(text, i);
    i += c.size;
    if (c.value == 0x130) {  // the one letter whose lower case is two characters
      out->append("i\u0307");
    } else {
      AppendUtf8(static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c.value))),
                 out);
    }
  }
}

void ReplaceLiteral(const Step& step, std::string_view text, std::string* out) {
  size_t done = 0;
  for (size_t at = text.find(step.literal); at != std::string_view::npos;
       at = text.find(step.literal, done)) {
    out->append(text.substr(done, at - done)).append(step.content);
    done = at + step.literal.size();
  }
  out->append(text.substr(done));
}

absl::Status ReplaceMatches(const Step& step, std::string_view text, RegexScratch* regex,
                            std::string* out) {
  size_t done = 0;
  RETURN_IF_ERROR(step.pattern->ForEachMatch(text, regex, [&](size_t begin, size_t end) {
    out->append(text.substr(done, begin - done)).append(step.content);
    done = end;
    return absl::OkStatus();
  }));
  out->append(text.substr(done));
  return absl::OkStatus();
}

std::string_view Strip(const Step& step, std::string_view text) {
  if (step.left) text.remove_prefix(LeadingWhiteSpace(text));
  if (step.right) text.remove_suffix(TrailingWhiteSpace(text));
  return text;
}

std::string_view NormalizeForm(Kind kind, std::string_view text, std::string* out) {
  if (kind == Kind::kNfc) return NormalizeNfc(text, out);
  return NormalizeUnicode(kind == Kind::kNfd    ? UnicodeForm::kD
                          : kind == Kind::kNfkc ? UnicodeForm::kKC
                                                : UnicodeForm::kKD,
                          text, out);
}

// Characters that Hugging Face's tables do not have stay as they are and part what is around them.
std::string_view NormalizeKnown(Kind kind, std::string_view text, std::string* out) {
  size_t late = FindLateCharacter(text, 0);
  if (late == text.size()) return NormalizeForm(kind, text, out);
  std::string part;
  for (size_t begin = 0; begin < text.size(); late = FindLateCharacter(text, begin)) {
    out->append(NormalizeForm(kind, text.substr(begin, late - begin), &part));
    begin = late;
    if (late == text.size()) break;
    const size_t size = CodePointAt(text, late).size;
    out->append(text.substr(late, size));
    begin += size;
  }
  return *out;
}

bool PointsInto(std::string_view text, const std::string& storage) {
  const std::less_equal<> not_after;
  return not_after(storage.data(), text.data()) &&
         not_after(text.data(), storage.data() + storage.size());
}

// *text becomes what the step makes of it: a part of itself, or a view of *out.
absl::Status RunStep(const Step& step, RegexScratch* regex, std::string* out,
                     std::string_view* text) {
  out->clear();
  switch (step.kind) {
    case Kind::kNfc:
    case Kind::kNfd:
    case Kind::kNfkc:
    case Kind::kNfkd:
      *text = NormalizeKnown(step.kind, *text, out);
      return absl::OkStatus();
    case Kind::kStrip:
      *text = Strip(step, *text);
      return absl::OkStatus();
    case Kind::kLowercase:
      Lowercase(*text, out);
      break;
    case Kind::kPrepend:
      if (text->empty()) return absl::OkStatus();
      out->reserve(step.content.size() + text->size());
      out->append(step.content).append(*text);
      break;
    case Kind::kReplace:
      if (step.pattern == nullptr) {
        if (text->find(step.literal) == std::string_view::npos) return absl::OkStatus();
        ReplaceLiteral(step, *text, out);
      } else {
        RETURN_IF_ERROR(ReplaceMatches(step, *text, regex, out));
      }
      break;
  }
  *text = *out;
  return absl::OkStatus();
}

}  // namespace

absl::Status Normalizer::Read(element normalizer) {
  const std::string type = TextField(normalizer, "type");
  if (const std::optional<Kind> kind = PlainKind(type)) {
    steps_.push_back({*kind});
    return absl::OkStatus();
  }
  simdjson::dom::array steps;
  if (type == "Sequence" && normalizer["normalizers"].get(steps) == simdjson::SUCCESS) {
    for (const element step : steps) RETURN_IF_ERROR(Read(step));
    return absl::OkStatus();
  }
  if (type == "Prepend") {
    steps_.push_back({Kind::kPrepend, TextField(normalizer, "prepend")});
    return absl::OkStatus();
  }
  if (type == "Strip") {
    Step step{Kind::kStrip};
    step.left = Field(normalizer, "strip_left", true);
    step.right = Field(normalizer, "strip_right", true);
    steps_.push_back(std::move(step));
    return absl::OkStatus();
  }
  if (type == "Replace") {
    ASSIGN_OR_RETURN(Step step, ReadReplace(normalizer));
    steps_.push_back(std::move(step));
    return absl::OkStatus();
  }
  return UnsupportedStep("normalizer", absl::StrCat("'", type, "'"), kSupportedNormalizers);
}

bool Normalizer::prepends() const {
  return std::any_of(steps_.begin(), steps_.end(),
                     [](const Step& step) { return step.kind == Kind::kPrepend; });
}

absl::Status Normalizer::Normalize(bool is_first, RegexScratch* regex, NormalizerScratch* scratch,
                                   std::string_view* text) const {
  std::string* out = &scratch->first;
  if (sentencepiece_ != nullptr) {
    out->clear();
    sentencepiece_->Normalize(*text, is_first, out);
    *text = *out;
    return absl::OkStatus();
  }
  std::string* other = &scratch->second;
  for (const Step& step : steps_) {
    RETURN_IF_ERROR(RunStep(step, regex, out, text));
    // The next step must not write over what it reads.
    if (PointsInto(*text, *out)) std::swap(out, other);
  }
  return absl::OkStatus();
}

}  // namespace coxswain::data
