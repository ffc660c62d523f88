// Cuts normalized text into words (pre-tokens), the units of byte-pair encoding.
#ifndef COXSWAIN_CONTROLLER_DATA_TOKENIZER_PRE_TOKENIZER_H_
#define COXSWAIN_CONTROLLER_DATA_TOKENIZER_PRE_TOKENIZER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/status_macros.h"
#include "controller/data/tokenizer/split_regex.h"
#include "controller/data/tokenizer/unicode_additions.h"
#include "controller/data/tokenizer/utf8.h"

namespace coxswain::data {

class PreTokenizer {
 public:
  // One Split of tokenizer.json. Matches and the text between them are words, unless dropped.
  struct Stage {
    std::unique_ptr<SplitRegex> regex;
    bool drop_matches = false;
    bool drop_gaps = false;
  };

  PreTokenizer() = default;

  void AddStage(Stage stage) { stages_.push_back(std::move(stage)); }
  // A space goes before each part that reaches the stage added next, unless one is there.
  void AddPrefixSpace() { prefix_space_stage_ = static_cast<int>(stages_.size()); }

  // Calls sink(std::string_view word) for each word of `text`, in order. `text` must be valid
  // UTF-8. A view lives until its call returns.
  template <typename Sink>
  absl::Status ForEachWord(std::string_view text, RegexScratch* scratch, Sink&& sink) const {
    return text.empty() ? absl::OkStatus() : Run(0, text, scratch, sink);
  }

 private:
  template <typename Sink>
  absl::Status Run(size_t stage, std::string_view text, RegexScratch* scratch, Sink& sink) const {
    std::string spaced;
    if (static_cast<int>(stage) == prefix_space_stage_ && text.front() != ' ') {
      spaced.reserve(text.size() + 1);
      spaced.append(" ").append(text);
      text = spaced;
    }
    if (stage == stages_.size()) {
      sink(text);
      return absl::OkStatus();
    }
    return RunRegex(stage, text, scratch, sink);
  }

  template <typename Sink>
  absl::Status RunRegex(size_t stage, std::string_view text, RegexScratch* scratch,
                        Sink& sink) const {
    const Stage& s = stages_[stage];
    const auto pass_on = [&](size_t begin, size_t end, bool drop) {
      if (begin == end || drop) return absl::OkStatus();
      return Run(stage + 1, text.substr(begin, end - begin), scratch, sink);
    };
    std::string storage;
    const std::string_view subject = ReplaceUnicodeAdditions(text, &storage);
    size_t done = 0;  // text before it has been passed on
    for (size_t position = 0; position < text.size();) {
      SplitRegex::Match match{};
      RETURN_IF_ERROR(s.regex->Find(subject, position, scratch, &match));
      if (match.begin == std::string_view::npos) break;
      RETURN_IF_ERROR(pass_on(done, match.begin, s.drop_gaps));
      RETURN_IF_ERROR(pass_on(match.begin, match.end, s.drop_matches));
      done = match.end;
      position = match.end;
      if (match.begin == match.end && position < text.size()) {
        position += CodePointAt(text, position).size;
      }
    }
    return pass_on(done, text.size(), s.drop_gaps);
  }

  std::vector<Stage> stages_;
  int prefix_space_stage_ = -1;  // -1: none
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_TOKENIZER_PRE_TOKENIZER_H_
