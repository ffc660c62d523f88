// The parts of a rendered record: text and special tokens, each a target or not.
#ifndef COXSWAIN_CONTROLLER_TEXT_TEMPLATES_SEGMENT_H_
#define COXSWAIN_CONTROLLER_TEXT_TEMPLATES_SEGMENT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/text/tokenizer/text_marks.h"

namespace coxswain::data {

struct SpecialToken {
  int32_t id = -1;
  std::string text;  // as the tokenizer writes it
};

// No token spans two segments.
struct Segment {
  std::string text;
  int32_t token = -1;  // >= 0: this special token, named by `text`; else plain text
  bool target = false;
  // Leading bytes of a target's text that the template wrote and that are not a target themselves.
  // They share a segment with what follows because the tokenizer must see both at once.
  size_t untrained_prefix = 0;
  bool markup = false;  // special tokens in the text are tokens, not text
  bool once = false;    // for a token: left out when the previous target is the same token
  // For a whole conversation: its targets, instead of `target`, and the places of special tokens in
  // the record's own text, which stay text.
  std::optional<TextMarks> marks = {};
};

// Collects segments. Neighbouring plain text with equal `target` becomes one segment.
class SegmentBuilder {
 public:
  void Token(const SpecialToken& token, bool target = false) {
    segments_.push_back({.text = token.text, .token = token.id, .target = target});
  }
  void Text(std::string_view text, bool target = false) {
    if (text.empty()) return;
    if (!segments_.empty() && segments_.back().token < 0 && segments_.back().target == target) {
      segments_.back().text.append(text);
    } else {
      segments_.push_back({.text = std::string(text), .target = target});
    }
  }
  std::vector<Segment> Take() { return std::move(segments_); }

 private:
  std::vector<Segment> segments_;
};

// The parts of a tokenizer that templates use: its special tokens, and its own template.
struct TemplateTokens {
  std::function<std::optional<int32_t>(std::string_view token)> find;
  SpecialToken eos;                  // id -1: the tokenizer names none
  std::string bos, pad, unk;         // empty: none
  std::vector<std::string> special;  // every token marked special, as text
  std::vector<std::string> counted;  // special tokens of the job: they are tokens in content too
  std::vector<std::string> ends;     // tokens with which the model ends its answers
  std::string own_template;          // Jinja text; empty: the model has none
  std::string own_tool_template;     // for conversations with tools; empty: own_template
  std::string tokenizer;             // path of the tokenizer, for messages

  // InvalidArgument names template, token and tokenizer.
  absl::StatusOr<SpecialToken> Require(std::string_view token, std::string_view needed_by) const;
  absl::StatusOr<SpecialToken> RequireEos(std::string_view needed_by) const;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TEMPLATES_SEGMENT_H_
