// UTF-8 validation, repair and code-point steps.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_UNICODE_UTF8_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_UNICODE_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace coxswain::data {

bool IsValidUtf8(std::string_view bytes);

// `bytes` with every maximal ill-formed subpart replaced by U+FFFD, as by Python's errors="replace"
// and Rust's String::from_utf8_lossy. Source: Unicode 15, section 3.9, "U+FFFD Substitution of
// Maximal Subparts".
std::string ReplaceInvalidUtf8(std::string_view bytes);

// Code point at text[position] and the number of its bytes. `text` must be valid UTF-8 and
// `position` a character boundary inside it.
struct CodePoint {
  uint32_t value;
  size_t size;
};
CodePoint CodePointAt(std::string_view text, size_t position);

// The last code point of `text`, which must be valid and not empty.
CodePoint LastCodePoint(std::string_view text);

void AppendUtf8(uint32_t code_point, std::string* out);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_UNICODE_UTF8_H_
