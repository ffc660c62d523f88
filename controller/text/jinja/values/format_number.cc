#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "controller/text/jinja/values/operators.h"
#include "controller/text/jinja/values/repr.h"
#include "controller/text/jinja/values/unicode.h"

namespace coxswain::data::jinja {
namespace {

std::string Group(const std::string& digits, char separator, size_t size) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % size == 0) out.push_back(separator);
    out.push_back(digits[i]);
  }
  return out;
}

std::string InBase(uint64_t value, unsigned base, bool upper) {
  std::string digits;
  do {
    const auto digit = static_cast<char>(value % base);
    digits.push_back(
        static_cast<char>(digit < 10 ? '0' + digit : (upper ? 'A' : 'a') + digit - 10));
    value /= base;
  } while (value != 0);
  std::reverse(digits.begin(), digits.end());
  return digits;
}

bool FormatInteger(Runtime& runtime, int64_t value, const Layout& layout, std::string* digits) {
  const uint64_t size =
      value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  std::string prefix;
  switch (layout.type) {
    case 'b':
      *digits = InBase(size, 2, false);
      prefix = "0b";
      break;
    case 'o':
      *digits = InBase(size, 8, false);
      prefix = "0o";
      break;
    case 'x':
    case 'X':
      *digits = InBase(size, 16, layout.type == 'X');
      prefix = layout.type == 'X' ? "0X" : "0x";
      break;
    case 'c':
      if (value < 0 || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) {
        runtime.Fail("OverflowError", "%c arg not in range(0x110000)");
        return false;
      }
      AppendUtf8(static_cast<char32_t>(value), digits);
      return true;
    default:
      *digits = InBase(size, 10, false);
  }
  if (layout.grouping != '\0') {
    *digits = Group(*digits, layout.grouping, prefix.empty() ? 3 : 4);
  }
  if (layout.alternate) *digits = prefix + *digits;
  return true;
}

void FormatReal(double size, const Layout& layout, std::string* digits) {
  char type = layout.type;
  const bool percent = type == '%';
  if (percent) {
    type = 'f';
    size *= 100;
  }
  if (type == 'n') type = 'g';
  if (type == '\0') {
    if (layout.precision < 0) {
      AppendFloat(size, digits);
    } else {
      type = 'g';
    }
  }
  if (type != '\0') {
    std::string format = layout.alternate ? "%#.*" : "%.*";
    format.push_back(type);
    const int precision = layout.precision < 0 ? 6 : static_cast<int>(layout.precision);
    const int length = std::snprintf(nullptr, 0, format.c_str(), precision, size);
    digits->resize(static_cast<size_t>(length) + 1);
    std::snprintf(digits->data(), digits->size(), format.c_str(), precision, size);
    digits->pop_back();
    const bool plain = digits->find_first_of(".eEn") == std::string::npos;
    if (layout.type == '\0' && plain) *digits += ".0";
  }
  if (layout.grouping != '\0' && std::isfinite(size)) {
    const size_t end = std::min(digits->find_first_not_of("0123456789"), digits->size());
    *digits = Group(digits->substr(0, end), layout.grouping, 3) + digits->substr(end);
  }
  if (percent) digits->push_back('%');
}

}  // namespace

bool FormatNumber(Runtime& runtime, const Value& value, const Layout& layout, std::string* sign,
                  std::string* digits) {
  constexpr std::string_view kReal = "eEfFgG%n";
  const bool real_type = layout.type != '\0' && kReal.find(layout.type) != std::string_view::npos;
  const bool integer_type = layout.type == '\0' ||
                            std::string_view("dboxXcn").find(layout.type) != std::string_view::npos;
  const bool negative = value.is(Kind::kFloat) ? std::signbit(value.number()) : value.integer() < 0;
  *sign = negative ? "-" : layout.sign == '-' ? "" : std::string(1, layout.sign);
  if (value.is_integer() && integer_type) {
    if (layout.precision >= 0) {
      runtime.Fail("ValueError", "Precision not allowed in integer format specifier");
      return false;
    }
    return FormatInteger(runtime, value.integer(), layout, digits);
  }
  if (!real_type && !(layout.type == '\0' && value.is(Kind::kFloat))) {
    runtime.Fail("ValueError",
                 absl::StrCat("Unknown format code '", std::string(1, layout.type),
                              "' for object of type '", std::string(TypeName(value)), "'"));
    return false;
  }
  if (std::isnan(value.number())) *sign = layout.sign == '-' ? "" : std::string(1, layout.sign);
  FormatReal(std::abs(value.number()), layout, digits);
  return true;
}

std::string LayOut(const Layout& layout, char default_align, std::string_view sign,
                   std::string_view text) {
  const int64_t length = CodePoints(text) + static_cast<int64_t>(sign.size());
  const int64_t missing = std::max<int64_t>(layout.width - length, 0);
  const char align = layout.align != '\0' ? layout.align : layout.zero ? '=' : default_align;
  const std::string fill = layout.zero && layout.align == '\0' ? "0" : layout.fill;
  const int64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  std::string out;
  const auto append_fill = [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i) out.append(fill);
  };
  if (align == '=') out.append(sign);
  append_fill(left);
  if (align != '=') out.append(sign);
  out.append(text);
  append_fill(missing - left);
  return out;
}

}  // namespace coxswain::data::jinja
