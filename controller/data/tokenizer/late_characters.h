// Characters that Unicode got after the tables behind Hugging Face's normalizers were made.
#ifndef COXSWAIN_CONTROLLER_DATA_TOKENIZER_LATE_CHARACTERS_H_
#define COXSWAIN_CONTROLLER_DATA_TOKENIZER_LATE_CHARACTERS_H_

#include <cstddef>
#include <string_view>

namespace coxswain::data {

// First position >= `position` of a character that utf8proc reorders or decomposes and Hugging
// Face's NFC, NFD, NFKC and NFKD leave where and as it is; text.size() if there is none. Text on
// either side of it is normalized apart. `text` must be valid UTF-8, `position` a boundary.
size_t FindLateCharacter(std::string_view text, size_t position);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_TOKENIZER_LATE_CHARACTERS_H_
