#include "controller/text/jinja/syntax/string_literal.h"

#include "absl/strings/str_cat.h"
#include "controller/text/jinja/values/unicode.h"

namespace coxswain::data::jinja {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool AppendHex(std::string_view literal, size_t digits, size_t* at, std::string* text,
               std::string* error) {
  char32_t c = 0;
  for (size_t i = 0; i < digits; ++i, ++*at) {
    const int digit = *at < literal.size() ? HexDigit(literal[*at]) : -1;
    if (digit < 0) {
      *error = absl::StrCat("an escape of a string needs ", digits, " hexadecimal digits");
      return false;
    }
    c = c * 16 + static_cast<char32_t>(digit);
  }
  if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) {
    *error = "an escape of a string is no Unicode character";
    return false;
  }
  AppendUtf8(c, text);
  return true;
}

void AppendOctal(std::string_view literal, size_t* at, std::string* text) {
  char32_t c = 0;
  for (int i = 0; i < 3 && *at < literal.size() && literal[*at] >= '0' && literal[*at] <= '7';
       ++i, ++*at) {
    c = c * 8 + static_cast<char32_t>(literal[*at] - '0');
  }
  AppendUtf8(c, text);
}

// The character of a one-letter escape; 0: there is none.
char OneLetter(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case '\\':
    case '\'':
    case '"':
      return c;
    default:
      return 0;
  }
}

}  // namespace

bool Unescape(std::string_view literal, std::string* text, std::string* error) {
  text->reserve(literal.size());
  for (size_t at = 0; at < literal.size();) {
    const char c = literal[at++];
    if (c != '\\' || at == literal.size()) {
      text->push_back(c);
      continue;
    }
    const char escape = literal[at];
    if (escape >= '0' && escape <= '7') {
      AppendOctal(literal, &at, text);
      continue;
    }
    ++at;
    if (const char one = OneLetter(escape); one != 0) {
      text->push_back(one);
    } else if (escape == 'x' || escape == 'u' || escape == 'U') {
      const size_t digits = escape == 'x' ? 2 : escape == 'u' ? 4 : 8;
      if (!AppendHex(literal, digits, &at, text, error)) return false;
    } else if (escape == 'N') {
      *error = "characters by name (\\N{...}) are not supported";
      return false;
    } else if (escape != '\n') {
      text->push_back('\\');
      text->push_back(escape);
    }
  }
  return true;
}

}  // namespace coxswain::data::jinja
