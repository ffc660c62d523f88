// A rendered conversation: text and special tokens, each a target or not.
#ifndef COXSWAIN_CONTROLLER_DATA_TEMPLATES_SEGMENT_H_
#define COXSWAIN_CONTROLLER_DATA_TEMPLATES_SEGMENT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace coxswain::data {

struct SpecialToken {
  int32_t id = -1;
  std::string text;  // as the tokenizer writes it
};

struct Segment {
  std::string text;
  int32_t token = -1;  // >= 0: this special token, of which `text` is the name; else plain text
  bool target = false;
  // Leading bytes of a target's text that the template wrote and that are not a target themselves.
  // They share a segment with what follows because the tokenizer must see both at once.
  size_t untrained_prefix = 0;
};

// Collects segments; neighbouring plain text of equal `target` becomes one segment.
class SegmentBuilder {
 public:
  void Token(const SpecialToken& token, bool target = false) {
    segments_.push_back({token.text, token.id, target, 0});
  }
  void Text(std::string_view text, bool target = false) {
    if (text.empty()) return;
    if (!segments_.empty() && segments_.back().token < 0 && segments_.back().target == target) {
      segments_.back().text.append(text);
    } else {
      segments_.push_back({std::string(text), -1, target, 0});
    }
  }
  // Target text behind `prefix`, which is not a target but joins its first token.
  void PrefixedTarget(std::string_view prefix, std::string_view text) {
    segments_.push_back({std::string(prefix) + std::string(text), -1, true, prefix.size()});
  }
  std::vector<Segment> Take() { return std::move(segments_); }

 private:
  std::vector<Segment> segments_;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_TEMPLATES_SEGMENT_H_
