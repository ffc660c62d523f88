// Characters that are newer than the Unicode tables of Hugging Face's normalizers.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_UNICODE_LATE_CHARACTERS_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_UNICODE_LATE_CHARACTERS_H_

#include <cstddef>
#include <string_view>

namespace coxswain::data {

// First position >= `position` of a character that utf8proc would reorder or decompose, but Hugging
// Face's NFC, NFD, NFKC and NFKD leave unchanged. text.size() if there is none. The texts before
// and after it must be normalized separately. `text` must be valid UTF-8, `position` a boundary.
size_t FindLateCharacter(std::string_view text, size_t position);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_UNICODE_LATE_CHARACTERS_H_
