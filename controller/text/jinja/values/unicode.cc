#include "controller/text/jinja/values/unicode.h"

#include <utf8proc.h>

#include <algorithm>

#include "controller/text/jinja/values/special_case.h"

namespace coxswain::data::jinja {
namespace {

bool Continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

bool AllAscii(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return (c & 0x80) != 0; });
}

utf8proc_category_t Category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool Cased(char32_t c) { return IsUpper(c) || IsLower(c) || IsTitle(c); }

// Letters between which a case rule looks through: apostrophes, points, marks.
bool CaseIgnorable(char32_t c) {
  switch (Category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return c == '\'' || c == '.' || c == ':' || c == 0xB7 || c == 0x2019 || c == 0x2018 ||
             c == 0x2024 || c == 0x2027;
  }
}

void AppendUpper(char32_t c, std::string* out) {
  if (c < 0x80) {
    out->push_back(static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c));
  } else if (const SpecialCase* special = FindSpecialCase(c); special != nullptr) {
    out->append(special->upper);
  } else {
    AppendUtf8(static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))), out);
  }
}

void AppendTitle(char32_t c, std::string* out) {
  if (const SpecialCase* special = FindSpecialCase(c); special != nullptr) {
    out->append(special->title);
  } else {
    AppendUtf8(static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))), out);
  }
}

// A capital sigma at the end of a word has a lower case of its own.
bool FinalSigma(std::string_view text, size_t begin, size_t end) {
  bool before = false;
  for (size_t at = begin; at > 0;) {
    do --at;
    while (at > 0 && Continues(text[at]));
    size_t next = at;
    const char32_t c = NextCodePoint(text, &next);
    if (CaseIgnorable(c)) continue;
    before = Cased(c);
    break;
  }
  if (!before) return false;
  for (size_t at = end; at < text.size();) {
    const char32_t c = NextCodePoint(text, &at);
    if (!CaseIgnorable(c)) return !Cased(c);
  }
  return true;
}

void AppendLower(std::string_view text, size_t begin, size_t end, char32_t c, std::string* out) {
  if (c < 0x80) {
    out->push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c));
  } else if (c == 0x130) {
    out->append("i\u0307");
  } else if (c == 0x3A3) {
    out->append(FinalSigma(text, begin, end) ? "\u03C2" : "\u03C3");
  } else {
    AppendUtf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), out);
  }
}

}  // namespace

bool IsUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    utf8proc_int32_t c = -1;
    const utf8proc_ssize_t size =
        utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at),
                         static_cast<utf8proc_ssize_t>(text.size() - at), &c);
    if (size <= 0) return false;
    at += static_cast<size_t>(size);
  }
  return true;
}

int64_t CodePoints(std::string_view text) {
  return static_cast<int64_t>(text.size()) - std::count_if(text.begin(), text.end(), Continues);
}

size_t ByteOffset(std::string_view text, int64_t index, size_t from) {
  size_t at = from;
  while (index > 0 && at < text.size()) {
    ++at;
    while (at < text.size() && Continues(text[at])) ++at;
    --index;
  }
  return at;
}

char32_t NextCodePoint(std::string_view text, size_t* at) {
  const auto byte = static_cast<unsigned char>(text[*at]);
  if (byte < 0x80) {
    ++*at;
    return byte;
  }
  utf8proc_int32_t c = -1;
  const utf8proc_ssize_t size =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + *at),
                       static_cast<utf8proc_ssize_t>(text.size() - *at), &c);
  *at += size > 0 ? static_cast<size_t>(size) : 1;
  return c < 0 ? 0xFFFD : static_cast<char32_t>(c);
}

void AppendUtf8(char32_t code_point, std::string* out) {
  utf8proc_uint8_t bytes[4];
  const auto size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
  out->append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
}

// Source: Python 3.11, str.isspace: bidirectional WS, B, S or category Zs.
bool IsSpace(char32_t c) {
  if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 28 && c <= 32);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

std::string_view StripLeft(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    size_t next = at;
    if (!IsSpace(NextCodePoint(text, &next))) break;
    at = next;
  }
  return text.substr(at);
}

std::string_view StripRight(std::string_view text) {
  while (!text.empty()) {
    size_t at = text.size() - 1;
    while (at > 0 && Continues(text[at])) --at;
    size_t next = at;
    if (!IsSpace(NextCodePoint(text, &next))) break;
    text = text.substr(0, at);
  }
  return text;
}

bool IsAlpha(char32_t c) {
  const auto category = Category(c);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}
bool IsDecimal(char32_t c) { return Category(c) == UTF8PROC_CATEGORY_ND; }
bool IsDigit(char32_t c) {
  // Source: Unicode 14, Numeric_Type=Digit.
  static constexpr char32_t kRanges[][2] = {
      {0xB2, 0xB3},       {0xB9, 0xB9},       {0x1369, 0x1371},   {0x19DA, 0x19DA},
      {0x2070, 0x2070},   {0x2074, 0x2079},   {0x2080, 0x2089},   {0x2460, 0x2468},
      {0x2474, 0x247C},   {0x2488, 0x2490},   {0x24EA, 0x24EA},   {0x24F5, 0x24FD},
      {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},   {0x278A, 0x2792},
      {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A}};
  return IsDecimal(c) ||
         std::any_of(std::begin(kRanges), std::end(kRanges),
                     [c](const auto& range) { return c >= range[0] && c <= range[1]; });
}
bool IsNumeric(char32_t c) {
  const auto category = Category(c);
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}
bool IsUpper(char32_t c) { return utf8proc_isupper(static_cast<utf8proc_int32_t>(c)) != 0; }
bool IsLower(char32_t c) { return utf8proc_islower(static_cast<utf8proc_int32_t>(c)) != 0; }
bool IsTitle(char32_t c) { return Category(c) == UTF8PROC_CATEGORY_LT; }

bool IsPrintable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  switch (Category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

std::string ToUpper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) AppendUpper(NextCodePoint(text, &at), &out);
  return out;
}

std::string ToLower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = NextCodePoint(text, &at);
    AppendLower(text, begin, at, c, &out);
  }
  return out;
}

std::string CaseFold(std::string_view text) {
  if (AllAscii(text)) return ToLower(text);
  utf8proc_uint8_t* folded = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &folded, UTF8PROC_CASEFOLD);
  if (size < 0) return std::string(text);
  std::string out(reinterpret_cast<const char*>(folded), static_cast<size_t>(size));
  free(folded);
  return out;
}

std::string Capitalize(std::string_view text) {
  if (text.empty()) return "";
  std::string out;
  size_t at = 0;
  AppendTitle(NextCodePoint(text, &at), &out);
  while (at < text.size()) {
    const size_t begin = at;
    const char32_t c = NextCodePoint(text, &at);
    AppendLower(text, begin, at, c, &out);
  }
  return out;
}

std::string Title(std::string_view text) {
  std::string out;
  bool in_word = false;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = NextCodePoint(text, &at);
    if (in_word) {
      AppendLower(text, begin, at, c, &out);
    } else {
      AppendTitle(c, &out);
    }
    in_word = Cased(c);
  }
  return out;
}

std::string SwapCase(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = NextCodePoint(text, &at);
    if (IsUpper(c)) {
      AppendLower(text, begin, at, c, &out);
    } else if (IsLower(c)) {
      AppendUpper(c, &out);
    } else {
      AppendUtf8(c, &out);
    }
  }
  return out;
}

}  // namespace coxswain::data::jinja
