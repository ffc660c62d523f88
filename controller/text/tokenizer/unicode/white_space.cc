#include "controller/text/tokenizer/unicode/white_space.h"

#include <cstddef>
#include <cstdint>

#include <utf8proc.h>

namespace coxswain::data {
namespace {

bool IsSpace(int32_t code_point) {
  const utf8proc_property_t* property = utf8proc_get_property(code_point);
  return property->bidi_class == UTF8PROC_BIDI_CLASS_WS ||
         property->bidi_class == UTF8PROC_BIDI_CLASS_B ||
         property->bidi_class == UTF8PROC_BIDI_CLASS_S ||
         property->category == UTF8PROC_CATEGORY_ZS;
}

// Bytes of the white-space character at text[at..], or 0.
size_t SpaceAt(std::string_view text, size_t at) {
  int32_t code_point = -1;
  const auto bytes = utf8proc_iterate(reinterpret_cast<const uint8_t*>(text.data()) + at,
                                      static_cast<utf8proc_ssize_t>(text.size() - at), &code_point);
  return bytes > 0 && IsSpace(code_point) ? static_cast<size_t>(bytes) : 0;
}

}  // namespace

std::string_view Strip(std::string_view text) {
  while (!text.empty()) {
    const size_t bytes = SpaceAt(text, 0);
    if (bytes == 0) break;
    text.remove_prefix(bytes);
  }
  while (!text.empty()) {
    size_t start = text.size() - 1;
    while (start > 0 && (static_cast<uint8_t>(text[start]) & 0xC0) == 0x80) --start;
    if (SpaceAt(text, start) == 0) break;
    text = text.substr(0, start);
  }
  return text;
}

}  // namespace coxswain::data
