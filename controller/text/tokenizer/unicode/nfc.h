// Unicode normalization form C.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_UNICODE_NFC_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_UNICODE_NFC_H_

#include <string>
#include <string_view>

namespace coxswain::data {

// NFC of `text`, which must be valid UTF-8. Returns `text` itself if it is already NFC, otherwise a
// view of *storage.
std::string_view NormalizeNfc(std::string_view text, std::string* storage);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_UNICODE_NFC_H_
