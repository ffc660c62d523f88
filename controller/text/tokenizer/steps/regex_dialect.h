// Rewrites a pre-tokenizer's regex, written for Oniguruma (the engine of Hugging Face tokenizers),
// so that PCRE2 with UTF and UCP matches the same text.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_REGEX_DIALECT_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_REGEX_DIALECT_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace coxswain::data {

// \s and \S become the explicit 25 code points of Unicode White_Space (PCRE2's own \s holds U+180E
// too); \p{L}, \p{N} and the like agree in PCRE2 10.42 and Oniguruma 6.9.8. InvalidArgument for
// constructs that the two engines read differently: nested classes and &&, \S in a class, {n,m}+,
// bare ^ and $, and the escapes \h \H \R \X \K \G \Z.
absl::StatusOr<std::string> OnigurumaToPcre2(std::string_view pattern);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_REGEX_DIALECT_H_
