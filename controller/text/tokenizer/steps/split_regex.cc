#include "controller/text/tokenizer/steps/split_regex.h"

#include <cstdint>
#include <new>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/text/tokenizer/steps/regex_dialect.h"

namespace coxswain::data {
namespace {

constexpr size_t kJitStackStart = 64 << 10;
constexpr size_t kJitStackMax = 16 << 20;

std::string ErrorText(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof(text));
  return reinterpret_cast<const char*>(text);
}

}  // namespace

RegexScratch::RegexScratch()
    : match_data_(pcre2_match_data_create(1, nullptr)),
      context_(pcre2_match_context_create(nullptr)),
      jit_stack_(pcre2_jit_stack_create(kJitStackStart, kJitStackMax, nullptr)) {
  if (match_data_ == nullptr || context_ == nullptr || jit_stack_ == nullptr) {
    throw std::bad_alloc();
  }
  pcre2_set_match_limit(context_, UINT32_MAX);
  pcre2_jit_stack_assign(context_, nullptr, jit_stack_);
}

RegexScratch::~RegexScratch() {
  pcre2_jit_stack_free(jit_stack_);
  pcre2_match_context_free(context_);
  pcre2_match_data_free(match_data_);
}

absl::StatusOr<std::unique_ptr<SplitRegex>> SplitRegex::Compile(std::string_view pattern) {
  ASSIGN_OR_RETURN(const std::string translated, OnigurumaToPcre2(pattern));
  return CompileWith(translated, PCRE2_UCP, /*as_of_now=*/true);
}

absl::StatusOr<std::unique_ptr<SplitRegex>> SplitRegex::CompileLiteral(std::string_view text) {
  return CompileWith(std::string(text), PCRE2_LITERAL, /*as_of_now=*/false);
}

absl::StatusOr<std::unique_ptr<SplitRegex>> SplitRegex::CompileAsWritten(
    const std::string& pattern) {
  return CompileWith(pattern, PCRE2_UCP, /*as_of_now=*/false);
}

absl::StatusOr<std::unique_ptr<SplitRegex>> SplitRegex::CompileWith(const std::string& pattern,
                                                                    uint32_t options,
                                                                    bool as_of_now) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   PCRE2_UTF | options, &error, &offset, nullptr);
  if (code == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "regex '", pattern, "' does not compile: ", ErrorText(error), " at character ", offset));
  }
  std::unique_ptr<SplitRegex> regex(new SplitRegex(code, as_of_now));
  const int status = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  if (status != 0) {
    return absl::InternalError(
        absl::StrCat("regex '", pattern, "': PCRE2's JIT refuses it: ", ErrorText(status)));
  }
  return regex;
}

SplitRegex::~SplitRegex() { pcre2_code_free(code_); }

absl::Status SplitRegex::Find(std::string_view subject, size_t start, RegexScratch* scratch,
                              Match* match) const {
  const int count =
      pcre2_jit_match(code_, reinterpret_cast<PCRE2_SPTR>(subject.data()), subject.size(), start, 0,
                      scratch->match_data_, scratch->context_);
  if (count >= 0) {
    const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(scratch->match_data_);
    *match = {offsets[0], offsets[1]};
    return absl::OkStatus();
  }
  if (count == PCRE2_ERROR_NOMATCH) {
    *match = {std::string_view::npos, std::string_view::npos};
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat("pre-tokenizer regex failed at byte ", start,
                                                   " of ", subject.size(), ": ", ErrorText(count)));
}

}  // namespace coxswain::data
