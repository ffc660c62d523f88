// Replaces characters that are newer than the regex engine's Unicode tables.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_UNICODE_UNICODE_ADDITIONS_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_UNICODE_UNICODE_ADDITIONS_H_

#include <string>
#include <string_view>

namespace coxswain::data {

// `text` (valid UTF-8) in which every character added to Unicode after version 14 is replaced by an
// older one of the same general category and the same number of bytes. So PCRE2 10.42 (Unicode 14)
// matches at the same byte offsets as the Oniguruma of Hugging Face's wheels (Unicode 16). Returns
// `text` itself if it has no such character, otherwise a view of *storage.
std::string_view ReplaceUnicodeAdditions(std::string_view text, std::string* storage);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_UNICODE_UNICODE_ADDITIONS_H_
