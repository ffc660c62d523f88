// Filters that answer numbers, or text made of them.
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "absl/strings/str_cat.h"
#include "controller/text/jinja/syntax/builtins.h"
#include "controller/text/jinja/values/operators.h"
#include "controller/text/jinja/values/unicode.h"

namespace coxswain::data::jinja {
namespace {

Value Abs(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (!Bind(runtime, "abs", arguments, {}, 0, nullptr)) return Value::Failed();
  if (self.is(Kind::kFloat)) return Value::Float(std::abs(self.number()));
  if (self.is_integer()) {
    return self.integer() < 0 ? Negate(runtime, self) : Value::Int(self.integer());
  }
  return runtime.Fail(
      "TypeError", absl::StrCat("bad operand type for abs(): '", std::string(TypeName(self)), "'"));
}

// Digits with single underscores between them, without those; nothing: not so.
std::optional<std::string> WithoutUnderscores(std::string_view text) {
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      digits.push_back(text[i]);
      continue;
    }
    const bool between = i > 0 && i + 1 < text.size() && std::isalnum(text[i - 1]) != 0 &&
                         std::isalnum(text[i + 1]) != 0;
    if (!between) return std::nullopt;
  }
  return digits;
}

// Python's int(text, base); nothing: a ValueError, or more than 64 bits.
std::optional<int64_t> ReadInt(std::string_view text, int64_t base) {
  text = StripBoth(text);
  const bool negative = !text.empty() && text[0] == '-';
  if (negative || (!text.empty() && text[0] == '+')) text.remove_prefix(1);
  if (text.size() > 1 && text[0] == '0') {
    const char letter = static_cast<char>(text[1] | 32);
    const int64_t named = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (named != 0 && (base == 0 || base == named)) {
      base = named;
      text.remove_prefix(2);
      if (!text.empty() && text[0] == '_') text.remove_prefix(1);
    }
  }
  if (base == 0) base = 10;
  if (base < 2 || base > 36) return std::nullopt;
  const std::optional<std::string> digits = WithoutUnderscores(text);
  if (!digits.has_value() || digits->empty() || digits->front() == '-') return std::nullopt;
  const std::string signed_digits = (negative ? "-" : "") + *digits;
  int64_t value = 0;
  const char* end = signed_digits.data() + signed_digits.size();
  const auto read = std::from_chars(signed_digits.data(), end, value, static_cast<int>(base));
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return value;
}

// Python's float(text); nothing: a ValueError.
std::optional<double> ReadFloat(std::string_view text) {
  const std::optional<std::string> digits = WithoutUnderscores(StripBoth(text));
  if (!digits.has_value() || digits->empty()) return std::nullopt;
  const size_t sign = digits->front() == '-' || digits->front() == '+' ? 1 : 0;
  const std::string word = ToLower(std::string_view(*digits).substr(sign));
  const bool named = word == "inf" || word == "infinity" || word == "nan";
  if (!named && word.find_first_not_of("0123456789.e+-") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(digits->c_str(), &end);
  return end == digits->c_str() + digits->size() ? std::optional(value) : std::nullopt;
}

std::optional<int64_t> FloatToInt(double value) {
  if (!(std::abs(value) < 9.2e18)) return std::nullopt;
  return static_cast<int64_t>(value);
}

Value ToInt(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value given[2];
  if (!Bind(runtime, "do_int", arguments, {"default", "base"}, 0, given)) return Value::Failed();
  const int64_t base = given[1].is_integer() ? given[1].integer() : 10;
  const Value otherwise = given[0].missing() ? Value::Int(0) : given[0];
  if (self.is_integer()) return Value::Int(self.integer());
  if (self.is(Kind::kBigInt)) return self;
  if (self.is(Kind::kUndefined)) return FailUndefined(runtime, self);
  std::optional<int64_t> value;
  if (self.is(Kind::kFloat)) {
    value = FloatToInt(self.number());
    if (!value.has_value() && std::isfinite(self.number())) {
      return runtime.Fail("OverflowError", "int: the number exceeds 64 bits");
    }
    if (std::isinf(self.number())) {
      return runtime.Fail("OverflowError", "cannot convert float infinity to integer");
    }
  } else if (self.is_string()) {
    value = ReadInt(self.text(), base);
    if (!value.has_value()) {
      const std::optional<double> real = ReadFloat(self.text());
      if (real.has_value()) value = FloatToInt(*real);
    }
  }
  return value.has_value() ? Value::Int(*value) : otherwise;
}

Value ToFloat(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value otherwise;
  if (!Bind(runtime, "do_float", arguments, {"default"}, 0, &otherwise)) return Value::Failed();
  if (otherwise.missing()) otherwise = Value::Float(0);
  if (self.is_number()) return Value::Float(self.number());
  if (self.is(Kind::kUndefined)) return FailUndefined(runtime, self);
  if (!self.is_string() && !self.is(Kind::kBigInt)) return otherwise;
  const std::optional<double> value = ReadFloat(self.text());
  return value.has_value() ? Value::Float(*value) : otherwise;
}

// Python's round(float, digits): half to even of the exact binary value.
double RoundFloat(double value, int64_t precision) {
  if (!std::isfinite(value) || precision > 300) return value;
  if (precision < -300) return std::copysign(0.0, value);
  if (precision < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-precision));
    return std::nearbyint(value / unit) * unit;
  }
  char digits[700];
  std::snprintf(digits, sizeof(digits), "%.*f", static_cast<int>(precision), value);
  return std::strtod(digits, nullptr);
}

Value RoundInt(Runtime& runtime, int64_t value, int64_t precision) {
  if (precision >= 0) return Value::Int(value);
  if (precision < -18) return Value::Int(0);
  int64_t unit = 1;
  for (int64_t i = precision; i < 0; ++i) unit *= 10;
  int64_t quotient = value / unit;
  const int64_t rest = 2 * std::abs(value % unit);
  if (rest > unit || (rest == unit && quotient % 2 != 0)) quotient += value < 0 ? -1 : 1;
  if (__builtin_mul_overflow(quotient, unit, &quotient)) {
    return runtime.Fail("OverflowError", "round: the result exceeds 64 bits");
  }
  return Value::Int(quotient);
}

Value Round(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value given[2];
  if (!Bind(runtime, "do_round", arguments, {"precision", "method"}, 0, given)) {
    return Value::Failed();
  }
  const std::string method = given[1].missing()     ? "common"
                             : given[1].is_string() ? std::string(given[1].text())
                                                    : "";
  if (method != "common" && method != "ceil" && method != "floor") {
    return runtime.Fail("FilterArgumentError", "method must be common, ceil or floor");
  }
  if (!given[0].missing() && !given[0].is_integer()) {
    return runtime.Fail("TypeError", "round: the precision is no integer");
  }
  const int64_t precision = given[0].missing() ? 0 : given[0].integer();
  if (self.is(Kind::kUndefined)) {
    return method == "common" ? runtime.Fail("TypeError",
                                             "type Undefined doesn't define "
                                             "__round__ method")
                              : FailUndefined(runtime, self);
  }
  if (!self.is_number()) {
    return runtime.Fail("TypeError", absl::StrCat("type ", std::string(TypeName(self)),
                                                  " doesn't define __round__ method"));
  }
  if (method == "common") {
    return self.is_integer() ? RoundInt(runtime, self.integer(), precision)
                             : Value::Float(RoundFloat(self.number(), precision));
  }
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = self.number() * unit;
  // Python's ceil is an integer, which has no -0.
  return Value::Float((method == "ceil" ? std::ceil(scaled) + 0.0 : std::floor(scaled)) / unit);
}

Value FileSizeFormat(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value binary;
  if (!Bind(runtime, "do_filesizeformat", arguments, {"binary"}, 0, &binary)) {
    return Value::Failed();
  }
  if (self.is(Kind::kUndefined)) return FailUndefined(runtime, self);
  double bytes = 0;
  if (self.is_number()) {
    bytes = self.number();
  } else if (const auto read = self.is_string() ? ReadFloat(self.text()) : std::nullopt;
             read.has_value()) {
    bytes = *read;
  } else {
    return runtime.Fail(self.is_string() ? "ValueError" : "TypeError",
                        "could not convert to a number of bytes");
  }
  const double base = Truth(binary) ? 1024 : 1000;
  if (bytes == 1) return runtime.Text("1 Byte");
  if (bytes < base) {
    return runtime.Text(absl::StrCat(static_cast<int64_t>(bytes), " Bytes"));
  }
  static constexpr const char* kPrefixes[] = {"k", "M", "G", "T", "P", "E", "Z", "Y"};
  double unit = base;
  int prefix = -1;
  do {
    ++prefix;
    unit *= base;
  } while (bytes >= unit && prefix < 7);
  char text[400];
  std::snprintf(text, sizeof(text), "%.1f ", base * bytes / unit);
  const std::string name =
      Truth(binary) ? (prefix == 0 ? "K" : kPrefixes[prefix]) : std::string(kPrefixes[prefix]);
  return runtime.Text(absl::StrCat(text, name, Truth(binary) ? "iB" : "B"));
}

constexpr Builtin kNumberFilters[] = {
    {"abs", &Abs},
    {"int", &ToInt},
    {"float", &ToFloat},
    {"round", &Round},
    {"filesizeformat", &FileSizeFormat},
};

}  // namespace

std::span<const Builtin> NumberFilters() { return kNumberFilters; }

}  // namespace coxswain::data::jinja
