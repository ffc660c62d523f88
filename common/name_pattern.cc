// PCRE2's API is by code unit width.
#define PCRE2_CODE_UNIT_WIDTH 8

#include "common/name_pattern.h"

#include <pcre2.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace coxswain {
namespace {

// Steps of one match: names are short, and only a pattern that goes back and forth takes as many.
constexpr uint32_t kMostSteps = 100'000;

struct FreeMatch {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

}  // namespace

struct NamePattern::Code {
  explicit Code(pcre2_code* compiled) : code(compiled) {}
  ~Code() { pcre2_code_free(code); }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  pcre2_code* const code;
};

bool NamePattern::Is(const std::string& text) {
  return text.find_first_of("()[]*|\\^$+?{}") != std::string::npos;
}

absl::StatusOr<NamePattern> NamePattern::Compile(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* const code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                    PCRE2_ANCHORED | PCRE2_ENDANCHORED, &error, &offset, nullptr);
  if (code != nullptr) return NamePattern(std::make_shared<const Code>(code));
  PCRE2_UCHAR why[120];
  pcre2_get_error_message(error, why, sizeof(why));
  return absl::InvalidArgumentError(
      absl::StrCat("is no regular expression: ", reinterpret_cast<const char*>(why),
                   " at character ", offset + 1));
}

bool NamePattern::Matches(const std::string& name) const {
  const std::unique_ptr<pcre2_match_data, FreeMatch> data(
      pcre2_match_data_create_from_pattern(code_->code, nullptr));
  const std::unique_ptr<pcre2_match_context, FreeContext> context(
      pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(context.get(), kMostSteps);
  return pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(name.data()), name.size(), 0, 0,
                     data.get(), context.get()) >= 0;
}

}  // namespace coxswain
