// The decoder of a tokenizer.json. It turns tokens into text.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_DECODER_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_DECODER_H_

#include <simdjson.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "controller/text/tokenizer/steps/split_regex.h"

namespace coxswain::data {

class Decoder {
 public:
  enum class Kind {
    kByteLevel,     // byte alphabet back to bytes, over all tokens joined
    kByteFallback,  // runs of "<0x0A>" become characters
    kFuse,          // joins all tokens
    kReplace,       // matches of `pattern` become `content`
    kStrip,         // `content`, one character, at most `front` and `back` times
    kMetaspace,     // `content` becomes a space; in the first token nothing if `front` is 1
  };
  struct Step {
    Kind kind;
    std::string content = {};
    std::unique_ptr<SplitRegex> pattern = nullptr;  // kReplace
    size_t front = 0;
    size_t back = 0;
  };

  // Appends the steps of `decoder`, an element of tokenizer.json. InvalidArgument names an
  // unsupported step and the supported ones.
  absl::Status Read(simdjson::dom::element decoder);
  void Add(Step step) { steps_.push_back(std::move(step)); }

  // The text of `tokens`, as tokenizer.json writes them. Valid UTF-8 if the tokens are.
  std::string Decode(std::vector<std::string> tokens) const;

 private:
  std::vector<Step> steps_;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_DECODER_H_
