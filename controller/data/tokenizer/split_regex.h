// A compiled pre-tokenizer regex: PCRE2 with JIT. Immutable; the memory of a search is its
// caller's.
#ifndef COXSWAIN_CONTROLLER_DATA_TOKENIZER_SPLIT_REGEX_H_
#define COXSWAIN_CONTROLLER_DATA_TOKENIZER_SPLIT_REGEX_H_

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace coxswain::data {

// Scratch of one thread's searches, for any number of patterns.
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

  // `pattern` in Oniguruma's dialect. InvalidArgument when PCRE2 cannot read it alike.
  static absl::StatusOr<std::unique_ptr<SplitRegex>> Compile(std::string_view pattern);
  // Matches `text` itself.
  static absl::StatusOr<std::unique_ptr<SplitRegex>> CompileLiteral(std::string_view text);
  ~SplitRegex();

  // First match at or after `start`. `subject` must be valid UTF-8 and `start` a character
  // boundary; look-behind and look-ahead see the whole subject. ResourceExhausted: the matcher's
  // stack is full.
  absl::Status Find(std::string_view subject, size_t start, RegexScratch* scratch,
                    Match* match) const;

 private:
  explicit SplitRegex(pcre2_code* code) : code_(code) {}
  static absl::StatusOr<std::unique_ptr<SplitRegex>> CompileWith(const std::string& pattern,
                                                                 uint32_t options);

  pcre2_code* code_;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_TOKENIZER_SPLIT_REGEX_H_
