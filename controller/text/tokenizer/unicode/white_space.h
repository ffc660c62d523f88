// White_Space of Unicode.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_UNICODE_WHITE_SPACE_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_UNICODE_WHITE_SPACE_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "controller/text/tokenizer/unicode/utf8.h"

namespace coxswain::data {

inline bool IsWhiteSpace(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

// Bytes of white space at the front of `text`, which must be valid UTF-8.
inline size_t LeadingWhiteSpace(std::string_view text) {
  size_t size = 0;
  while (size < text.size()) {
    const CodePoint c = CodePointAt(text, size);
    if (!IsWhiteSpace(c.value)) break;
    size += c.size;
  }
  return size;
}

// Bytes of white space at the end of `text`, which must be valid UTF-8.
inline size_t TrailingWhiteSpace(std::string_view text) {
  size_t size = text.size();
  while (size > 0) {
    const CodePoint c = LastCodePoint(text.substr(0, size));
    if (!IsWhiteSpace(c.value)) break;
    size -= c.size;
  }
  return text.size() - size;
}

// Python's str.strip(), as `| trim` in chat templates.

// `text`, valid UTF-8, without white space at both ends. White space: bidirectional type WS, B or
// S, or category Zs. Source: Python documentation, str.isspace.
std::string_view Strip(std::string_view text);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_UNICODE_WHITE_SPACE_H_
