#include "controller/text/tokenizer/unicode/unicode_forms.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

#include <utf8proc.h>

#include "controller/text/tokenizer/unicode/utf8.h"

namespace coxswain::data {
namespace {

utf8proc_option_t FormOptions(UnicodeForm form) {
  switch (form) {
    case UnicodeForm::kD:
      return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
    case UnicodeForm::kKC:
      return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
    case UnicodeForm::kKD:
      break;
  }
  return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
}

}  // namespace

std::string_view NormalizeUnicode(UnicodeForm form, std::string_view text, std::string* storage) {
  if (std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; })) return text;
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &mapped, FormOptions(form));
  if (size < 0) throw std::bad_alloc();  // the only failure for valid UTF-8
  storage->assign(reinterpret_cast<const char*>(mapped), static_cast<size_t>(size));
  std::free(mapped);
  return *storage;
}

namespace {

constexpr auto kNfc = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
constexpr uint32_t kTableSize = 0x30000;  // the planes with normalization data

// A code point is inert when NFC leaves it alone and never joins it to the character before it:
// combining class 0, no canonical decomposition (or a precomposed form that recomposes), and not
// the second half of any composition. Text can be cut before an inert code point.
bool IsInertSlow(uint32_t c) {
  if (c >= 0x1100 && c <= 0x11FF) return false;  // conjoining Jamo
  if (c >= 0xAC00 && c <= 0xD7A3) return true;   // precomposed Hangul
  const utf8proc_property_t* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
  if (property->combining_class != 0) return false;
  if (property->comb_index != UINT16_MAX && property->comb_index >= 0x8000) return false;
  utf8proc_int32_t parts[32];
  int boundary = 0;
  const utf8proc_ssize_t count =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, 32, kNfc, &boundary);
  if (count == 1) return parts[0] == static_cast<utf8proc_int32_t>(c);
  // A composed letter: NFC keeps it when it composes back to itself (excluded ones do not).
  std::string text;
  AppendUtf8(c, &text);
  utf8proc_uint8_t* composed = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &composed, kNfc);
  const bool same = size == static_cast<utf8proc_ssize_t>(text.size()) &&
                    text == reinterpret_cast<const char*>(composed);
  std::free(composed);
  return same;
}

bool IsInert(uint32_t c) {
  static const std::vector<bool> table = [] {
    std::vector<bool> inert(kTableSize);
    for (uint32_t i = 0; i < kTableSize; ++i) inert[i] = IsInertSlow(i);
    return inert;
  }();
  return c >= kTableSize || table[c];
}

// First position >= `position` of a code point that is not inert. Code points below U+0300 are.
size_t FindNotInert(std::string_view text, size_t position) {
  while (position < text.size()) {
    if (static_cast<uint8_t>(text[position]) < 0xCC) {
      ++position;  // a whole character, or a byte inside one
      continue;
    }
    const CodePoint c = CodePointAt(text, position);
    if (!IsInert(c.value)) return position;
    position += c.size;
  }
  return text.size();
}

size_t FindInert(std::string_view text, size_t position) {
  while (position < text.size()) {
    const CodePoint c = CodePointAt(text, position);
    if (IsInert(c.value)) return position;
    position += c.size;
  }
  return text.size();
}

void AppendNormalized(std::string_view segment, std::string* out) {
  utf8proc_uint8_t* composed = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(segment.data()),
                   static_cast<utf8proc_ssize_t>(segment.size()), &composed, kNfc);
  if (size < 0) throw std::bad_alloc();  // the only failure for valid UTF-8
  out->append(reinterpret_cast<const char*>(composed), static_cast<size_t>(size));
  std::free(composed);
}

}  // namespace

std::string_view NormalizeNfc(std::string_view text, std::string* storage) {
  size_t odd = FindNotInert(text, 0);
  if (odd == text.size()) return text;
  storage->clear();
  size_t copied = 0;
  while (odd < text.size()) {
    // The segment starts at the inert character before, with which the odd one may combine.
    const size_t start = odd > copied ? odd - LastCodePoint(text.substr(0, odd)).size : odd;
    const size_t end = FindInert(text, odd);
    storage->append(text.substr(copied, start - copied));
    AppendNormalized(text.substr(start, end - start), storage);
    copied = end;
    odd = FindNotInert(text, end);
  }
  storage->append(text.substr(copied));
  return *storage;
}

}  // namespace coxswain::data
