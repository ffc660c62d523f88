// Methods of strings that return text or lists of it.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "controller/text/jinja/syntax/builtins.h"
#include "controller/text/jinja/values/cursor.h"
#include "controller/text/jinja/values/operators.h"
#include "controller/text/jinja/values/repr.h"
#include "controller/text/jinja/values/string_functions.h"
#include "controller/text/jinja/values/unicode.h"

namespace coxswain::data::jinja {
namespace {

Value WrongType(Runtime& runtime, std::string_view method, const Value& value) {
  if (value.is(Kind::kUndefined)) {
    return runtime.Fail(
        "TypeError", absl::StrCat(std::string(method), "() argument must be str, not Undefined"));
  }
  return runtime.Fail("TypeError",
                      absl::StrCat(std::string(method), "() argument must be str, not ",
                                   std::string(TypeName(value))));
}

template <std::string (*convert)(std::string_view)>
Value ConvertedText(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (!Bind(runtime, "str method", arguments, {}, 0, nullptr)) return Value::Failed();
  return runtime.Text(convert(self.text()), self.markup());
}

template <bool left, bool right>
Value StripMethod(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value chars;
  if (!Bind(runtime, "strip", arguments, {"chars"}, 0, &chars)) return Value::Failed();
  return Strip(runtime, self, chars, left, right);
}

template <Align align>
Value PadMethod(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value given[2];
  if (!Bind(runtime, "just", arguments, {"width", "fillchar"}, 1, given)) return Value::Failed();
  return Pad(runtime, self, given[0], given[1], align);
}

Value ZeroFill(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value width;
  if (!Bind(runtime, "zfill", arguments, {"width"}, 1, &width)) return Value::Failed();
  std::string_view text = self.text();
  const bool sign = !text.empty() && (text[0] == '+' || text[0] == '-');
  const Value padded = Pad(runtime, self, width, Value::Text("0"), Align::kRight);
  if (padded.failed() || !sign || padded.text().size() == text.size()) return padded;
  std::string moved(padded.text());
  moved[moved.size() - text.size()] = '0';
  moved[0] = text[0];
  return runtime.Text(std::move(moved), self.markup());
}

Value ReplaceMethod(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value given[3];
  if (!Bind(runtime, "replace", arguments, {"old", "new", "count"}, 2, given)) {
    return Value::Failed();
  }
  for (int i = 0; i < 2; ++i) {
    if (!given[i].is_string()) return WrongType(runtime, "replace", given[i]);
  }
  if (!given[2].missing() && !given[2].is_integer()) {
    return runtime.Fail("TypeError", "replace: the count is no integer");
  }
  const int64_t count = given[2].missing() ? -1 : given[2].integer();
  std::string parts[2];
  for (int i = 0; i < 2; ++i) {
    if (i == 1 && self.markup() && !given[i].markup()) {
      AppendEscaped(given[i].text(), &parts[i]);
    } else {
      parts[i] = given[i].text();
    }
  }
  const Value result = Replace(runtime, self.text(), parts[0], parts[1], count);
  if (result.failed() || !self.markup()) return result;
  return runtime.Text(std::string(result.text()), true);
}

template <bool prefix>
Value RemoveAffix(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value affix;
  if (!Bind(runtime, "remove", arguments, {"affix"}, 1, &affix)) return Value::Failed();
  if (!affix.is_string()) return WrongType(runtime, "remove", affix);
  const std::string_view text = self.text();
  const std::string_view part = affix.text();
  if (part.size() > text.size() || part.empty()) return self;
  const size_t at = prefix ? 0 : text.size() - part.size();
  if (text.substr(at, part.size()) != part) return self;
  return runtime.Text(std::string(prefix ? text.substr(part.size()) : text.substr(0, at)),
                      self.markup());
}

Value ListOf(Runtime& runtime, const std::vector<std::string_view>& parts, bool markup) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const std::string_view part : parts) {
    items.push_back(runtime.Text(std::string(part), markup));
    if (items.back().failed()) return Value::Failed();
  }
  return runtime.NewList(std::move(items));
}

std::vector<std::string_view> SplitAt(std::string_view text, std::string_view separator,
                                      int64_t most) {
  std::vector<std::string_view> parts;
  size_t at = 0;
  for (; most != 0; --most) {
    const size_t found = text.find(separator, at);
    if (found == std::string_view::npos) break;
    parts.push_back(text.substr(at, found - at));
    at = found + separator.size();
  }
  parts.push_back(text.substr(at));
  return parts;
}

std::vector<std::string_view> SplitAtFromRight(std::string_view text, std::string_view separator,
                                               int64_t most) {
  std::vector<std::string_view> parts;
  while (most != 0 && text.size() >= separator.size()) {
    const size_t found = text.rfind(separator);
    if (found == std::string_view::npos) break;
    parts.push_back(text.substr(found + separator.size()));
    text = text.substr(0, found);
    --most;
  }
  parts.push_back(text);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

template <bool from_right>
Value Split(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value given[2];
  if (!Bind(runtime, "split", arguments, {"sep", "maxsplit"}, 0, given)) return Value::Failed();
  if (!given[1].missing() && !given[1].is_integer()) {
    return runtime.Fail("TypeError", absl::StrCat("'", std::string(TypeName(given[1])),
                                                  "' object cannot be interpreted as an integer"));
  }
  const int64_t most = given[1].missing() ? -1 : std::max<int64_t>(given[1].integer(), -1);
  const std::string_view text = self.text();
  if (!runtime.Step(static_cast<int64_t>(text.size()) / 16)) return Value::Failed();
  if (given[0].missing() || given[0].is(Kind::kNone)) {
    return ListOf(runtime, from_right ? SplitSpacesFromRight(text, most) : SplitSpaces(text, most),
                  self.markup());
  }
  if (!given[0].is_string()) {
    return runtime.Fail("TypeError",
                        absl::StrCat("must be str or None, not ", std::string(TypeName(given[0]))));
  }
  const std::string_view separator = given[0].text();
  if (separator.empty()) return runtime.Fail("ValueError", "empty separator");
  return ListOf(
      runtime,
      from_right ? SplitAtFromRight(text, separator, most) : SplitAt(text, separator, most),
      self.markup());
}

Value SplitLinesMethod(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value keep_ends;
  if (!Bind(runtime, "splitlines", arguments, {"keepends"}, 0, &keep_ends)) {
    return Value::Failed();
  }
  if (!runtime.Step(static_cast<int64_t>(self.text().size()) / 16)) return Value::Failed();
  return ListOf(runtime, SplitLines(self.text(), Truth(keep_ends)), self.markup());
}

template <bool from_right>
Value Partition(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value given;
  if (!Bind(runtime, "partition", arguments, {"sep"}, 1, &given)) return Value::Failed();
  if (!given.is_string()) return WrongType(runtime, "partition", given);
  const std::string_view text = self.text();
  const std::string_view separator = given.text();
  if (separator.empty()) return runtime.Fail("ValueError", "empty separator");
  const size_t at = from_right ? text.rfind(separator) : text.find(separator);
  std::string_view parts[3] = {text, "", ""};
  if (at == std::string_view::npos && from_right) std::swap(parts[0], parts[2]);
  if (at != std::string_view::npos) {
    parts[0] = text.substr(0, at);
    parts[1] = separator;
    parts[2] = text.substr(at + separator.size());
  }
  std::vector<Value> items;
  for (const std::string_view part : parts) {
    items.push_back(runtime.Text(std::string(part), self.markup()));
    if (items.back().failed()) return Value::Failed();
  }
  return runtime.NewTuple(std::move(items));
}

Value JoinMethod(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value iterable;
  if (!Bind(runtime, "join", arguments, {"iterable"}, 1, &iterable)) return Value::Failed();
  std::vector<Value> items;
  if (!IsIterable(iterable)) return runtime.Fail("TypeError", "can only join an iterable");
  if (!Collect(runtime, iterable, &items)) return Value::Failed();
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(self.text());
    if (self.markup()) {
      const Value part = Str(runtime, items[i]);
      if (part.failed()) return part;
      items[i] = part;
    } else if (!items[i].is_string()) {
      return runtime.Fail("TypeError",
                          absl::StrCat("sequence item ", i, ": expected str instance, ",
                                       std::string(TypeName(items[i])), " found"));
    }
    if (self.markup() && !items[i].markup()) {
      AppendEscaped(items[i].text(), &out);
    } else {
      out.append(items[i].text());
    }
    if (static_cast<int64_t>(out.size()) > runtime.limits().value_bytes) {
      runtime.Exceeded("value_bytes", runtime.limits().value_bytes);
      return Value::Failed();
    }
  }
  return runtime.Text(std::move(out), self.markup());
}

Value ExpandTabs(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value size;
  if (!Bind(runtime, "expandtabs", arguments, {"tabsize"}, 0, &size)) return Value::Failed();
  if (!size.missing() && !size.is_integer()) {
    return runtime.Fail("TypeError", "expandtabs: the tab size is no integer");
  }
  const int64_t width = size.missing() ? 8 : size.integer();
  if (width > 1000) return runtime.Fail("LimitError", "expandtabs: above 1000 is not supported");
  std::string out;
  int64_t column = 0;
  for (size_t at = 0; at < self.text().size();) {
    const size_t begin = at;
    const char32_t c = NextCodePoint(self.text(), &at);
    if (c == '\t') {
      const int64_t blanks = width > 0 ? width - column % width : 0;
      if (!runtime.Step(blanks / 16)) return Value::Failed();
      out.append(static_cast<size_t>(blanks), ' ');
      column += blanks;
      continue;
    }
    out.append(self.text().substr(begin, at - begin));
    column = c == '\n' || c == '\r' ? 0 : column + 1;
  }
  return runtime.Text(std::move(out), self.markup());
}

Value FormatMethod(Runtime& runtime, const Value& self, Arguments& arguments) {
  return FormatBraces(runtime, self, arguments);
}

Value FormatMap(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value mapping;
  if (!Bind(runtime, "format_map", arguments, {"mapping"}, 1, &mapping)) return Value::Failed();
  if (!mapping.is(Kind::kDict)) {
    return runtime.Fail("TypeError", "format_map: the argument is no mapping");
  }
  Arguments named;
  for (const auto& [name, value] : mapping.dict().entries()) {
    if (name.is_string()) named.named.emplace_back(name, value);
  }
  return FormatBraces(runtime, self, named);
}

constexpr Builtin kStringMethods[] = {
    {"upper", &ConvertedText<ToUpper>},
    {"lower", &ConvertedText<ToLower>},
    {"casefold", &ConvertedText<CaseFold>},
    {"capitalize", &ConvertedText<Capitalize>},
    {"title", &ConvertedText<Title>},
    {"swapcase", &ConvertedText<SwapCase>},
    {"strip", &StripMethod<true, true>},
    {"lstrip", &StripMethod<true, false>},
    {"rstrip", &StripMethod<false, true>},
    {"ljust", &PadMethod<Align::kLeft>},
    {"center", &PadMethod<Align::kCenter>},
    {"rjust", &PadMethod<Align::kRight>},
    {"zfill", &ZeroFill},
    {"replace", &ReplaceMethod},
    {"removeprefix", &RemoveAffix<true>},
    {"removesuffix", &RemoveAffix<false>},
    {"split", &Split<false>},
    {"rsplit", &Split<true>},
    {"splitlines", &SplitLinesMethod},
    {"partition", &Partition<false>},
    {"rpartition", &Partition<true>},
    {"join", &JoinMethod},
    {"expandtabs", &ExpandTabs},
    {"format", &FormatMethod},
    {"format_map", &FormatMap},
};

}  // namespace

std::span<const Builtin> StringMethods() { return kStringMethods; }

}  // namespace coxswain::data::jinja
