// Unicode normalization forms D, KC and KD; form C is in unicode_forms.h.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_UNICODE_UNICODE_FORMS_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_UNICODE_UNICODE_FORMS_H_

#include <string>
#include <string_view>

namespace coxswain::data {

enum class UnicodeForm { kD, kKC, kKD };

// `text`, which must be valid UTF-8, in `form`. Returns `text` itself when it is ASCII; otherwise a
// view of *storage.
std::string_view NormalizeUnicode(UnicodeForm form, std::string_view text, std::string* storage);

// Unicode normalization form C.

// NFC of `text`, which must be valid UTF-8. Returns `text` itself if it is already NFC, otherwise a
// view of *storage.
std::string_view NormalizeNfc(std::string_view text, std::string* storage);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_UNICODE_UNICODE_FORMS_H_
