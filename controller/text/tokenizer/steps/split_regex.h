// A compiled pre-tokenizer regex: PCRE2 with JIT. Immutable; the caller provides the memory of a
// search.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_SPLIT_REGEX_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_SPLIT_REGEX_H_

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/status_macros.h"
#include "controller/text/tokenizer/unicode/unicode_additions.h"
#include "controller/text/tokenizer/unicode/utf8.h"

namespace coxswain::data {

// Scratch memory for the searches of one thread, for any number of patterns.
class RegexScratch {
 public:
  RegexScratch();
  ~RegexScratch();
  RegexScratch(const RegexScratch&) = delete;
  RegexScratch& operator=(const RegexScratch&) = delete;

 private:
  friend class SplitRegex;
  pcre2_match_data* match_data_;
  pcre2_match_context* context_;
  pcre2_jit_stack* jit_stack_;
};

class SplitRegex {
 public:
  // Half-open byte range; begin == npos: no match.
  struct Match {
    size_t begin;
    size_t end;
  };

  // `pattern` in Oniguruma's dialect. InvalidArgument: PCRE2 cannot read it with the same meaning.
  static absl::StatusOr<std::unique_ptr<SplitRegex>> Compile(std::string_view pattern);
  // Matches `text` itself.
  static absl::StatusOr<std::unique_ptr<SplitRegex>> CompileLiteral(std::string_view text);
  // `pattern` in PCRE2's dialect, with the categories of Unicode 14.
  static absl::StatusOr<std::unique_ptr<SplitRegex>> CompileAsWritten(const std::string& pattern);
  ~SplitRegex();

  // Calls match(begin, end) for every match in `text` (valid UTF-8), in order and without overlap.
  // An empty match that touches the previous one is skipped, as in Oniguruma's find_iter. `match`
  // returns a status; an error ends the search. Errors as Find.
  template <typename Sink>
  absl::Status ForEachMatch(std::string_view text, RegexScratch* scratch, Sink&& match) const;

  // First match at or after `start`. `subject` must be valid UTF-8 and `start` a character
  // boundary; look-behind and look-ahead see the whole subject. ResourceExhausted: the matcher's
  // stack is full.
  absl::Status Find(std::string_view subject, size_t start, RegexScratch* scratch,
                    Match* match) const;

 private:
  SplitRegex(pcre2_code* code, bool as_of_now) : code_(code), as_of_now_(as_of_now) {}
  static absl::StatusOr<std::unique_ptr<SplitRegex>> CompileWith(const std::string& pattern,
                                                                 uint32_t options, bool as_of_now);

  pcre2_code* code_;
  bool as_of_now_;  // recognises characters newer than PCRE2's tables by their category
};

template <typename Sink>
absl::Status SplitRegex::ForEachMatch(std::string_view text, RegexScratch* scratch,
                                      Sink&& match) const {
  std::string storage;
  const std::string_view subject = as_of_now_ ? ReplaceUnicodeAdditions(text, &storage) : text;
  size_t last_end = std::string_view::npos;
  for (size_t position = 0; position <= text.size();) {
    Match found{};
    RETURN_IF_ERROR(Find(subject, position, scratch, &found));
    if (found.begin == std::string_view::npos) break;
    position = found.end;
    const bool is_empty = found.begin == found.end;
    if (is_empty) position += position < text.size() ? CodePointAt(text, position).size : 1;
    if (is_empty && found.end == last_end) continue;
    last_end = found.end;
    RETURN_IF_ERROR(match(found.begin, found.end));
  }
  return absl::OkStatus();
}

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_SPLIT_REGEX_H_
