// Text as Python's str sees it: code points, their cases and classes. All text is valid UTF-8.
#ifndef COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_UNICODE_H_
#define COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_UNICODE_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace coxswain::data::jinja {

bool IsUtf8(std::string_view text);
int64_t CodePoints(std::string_view text);

// Byte offset of the `index`-th code point, counted from the byte offset `from`; text.size() past
// the end.
size_t ByteOffset(std::string_view text, int64_t index, size_t from = 0);

// Reads the code point at *at and moves *at past it. Invalid UTF-8 is read as U+FFFD.
char32_t NextCodePoint(std::string_view text, size_t* at);
void AppendUtf8(char32_t code_point, std::string* out);

bool IsSpace(char32_t c);  // str.isspace and \s
std::string_view StripLeft(std::string_view text);
std::string_view StripRight(std::string_view text);
inline std::string_view StripBoth(std::string_view text) { return StripLeft(StripRight(text)); }

bool IsAlpha(char32_t c);
bool IsDecimal(char32_t c);
bool IsDigit(char32_t c);  // decimals, and digits above, below and in circles
bool IsNumeric(char32_t c);
bool IsUpper(char32_t c);
bool IsLower(char32_t c);
bool IsTitle(char32_t c);
bool IsPrintable(char32_t c);

std::string ToUpper(std::string_view text);
std::string ToLower(std::string_view text);
std::string CaseFold(std::string_view text);
std::string Capitalize(std::string_view text);
std::string Title(std::string_view text);  // str.title
std::string SwapCase(std::string_view text);

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_UNICODE_H_
