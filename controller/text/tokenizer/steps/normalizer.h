// The normalizer of a tokenizer.json or tokenizer.model. It changes the text before words are cut.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_NORMALIZER_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_NORMALIZER_H_

#include <simdjson.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/text/tokenizer/steps/sentencepiece_normalizer.h"
#include "controller/text/tokenizer/steps/split_regex.h"

namespace coxswain::data {

// Memory of one thread's Normalize.
struct NormalizerScratch {
  std::string first;
  std::string second;
};

class Normalizer {
 public:
  enum class Kind {
    kNfc,
    kNfd,
    kNfkc,
    kNfkd,
    kLowercase,
    kStrip,    // white space at either end
    kPrepend,  // `content` before a text that is not empty
    kReplace,  // matches of `pattern` become `content`
  };
  struct Step {
    Kind kind;
    std::string content = {};
    std::unique_ptr<SplitRegex> pattern = nullptr;
    std::string literal = {};  // kReplace without a pattern: the text to look for, not empty
    bool left = false;         // kStrip
    bool right = false;
  };

  // Appends the steps of `normalizer`, an element of tokenizer.json. InvalidArgument names an
  // unsupported step and the supported ones.
  absl::Status Read(simdjson::dom::element normalizer);
  // Uses the normalizer of a tokenizer.model instead of steps.
  void SetSentencePiece(std::unique_ptr<SentencePieceNormalizer> normalizer) {
    sentencepiece_ = std::move(normalizer);
  }
  // Null: the normalizer is that of a tokenizer.json.
  SentencePieceNormalizer* sentencepiece() { return sentencepiece_.get(); }

  bool empty() const { return steps_.empty() && sentencepiece_ == nullptr; }
  // True when a step writes text in front of the input, so that the first byte is another one.
  bool prepends() const;

  // Normalizes *text (valid UTF-8). If it changes, it becomes a view of *scratch. `is_first`: the
  // text is at the start of the input. ResourceExhausted: a pattern runs out of its stack.
  absl::Status Normalize(bool is_first, RegexScratch* regex, NormalizerScratch* scratch,
                         std::string_view* text) const;

 private:
  std::unique_ptr<SentencePieceNormalizer> sentencepiece_;
  std::vector<Step> steps_;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_NORMALIZER_H_
