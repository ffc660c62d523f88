#include "controller/text/jinja/values/string_functions.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "controller/text/jinja/values/unicode.h"

namespace coxswain::data::jinja {
namespace {

bool EndsLine(char32_t c) {
  return c == '\n' || c == '\r' || c == 0x0B || c == 0x0C || (c >= 0x1C && c <= 0x1E) ||
         c == 0x85 || c == 0x2028 || c == 0x2029;
}

// The last code point of a text that is not empty; *begin is where it starts.
char32_t LastCodePoint(std::string_view text, size_t* begin) {
  *begin = text.size() - 1;
  while (*begin > 0 && (static_cast<unsigned char>(text[*begin]) & 0xC0) == 0x80) --*begin;
  size_t at = *begin;
  return NextCodePoint(text, &at);
}

bool Holds(const std::vector<char32_t>& set, char32_t c) {
  return std::find(set.begin(), set.end(), c) != set.end();
}

}  // namespace

Value Strip(Runtime& runtime, const Value& text, const Value& chars, bool left, bool right) {
  std::string_view kept = text.text();
  if (!runtime.Step(static_cast<int64_t>(kept.size()) / 64)) return Value::Failed();
  if (chars.missing() || chars.is(Kind::kNone)) {
    if (left) kept = StripLeft(kept);
    if (right) kept = StripRight(kept);
  } else if (chars.is_string()) {
    std::vector<char32_t> set;
    for (size_t at = 0; at < chars.text().size();) {
      const char32_t c = NextCodePoint(chars.text(), &at);
      if (!Holds(set, c)) set.push_back(c);
    }
    const auto cost = static_cast<int64_t>(set.size());
    while (left && !kept.empty()) {
      size_t next = 0;
      if (!runtime.Step(cost / 16)) return Value::Failed();
      if (!Holds(set, NextCodePoint(kept, &next))) break;
      kept.remove_prefix(next);
    }
    while (right && !kept.empty()) {
      size_t begin = 0;
      if (!runtime.Step(cost / 16)) return Value::Failed();
      if (!Holds(set, LastCodePoint(kept, &begin))) break;
      kept = kept.substr(0, begin);
    }
  } else {
    return runtime.Fail("TypeError", absl::StrCat("strip arg must be None or str, not ",
                                                  std::string(TypeName(chars))));
  }
  if (kept.size() == text.text().size()) return text;
  return runtime.Text(std::string(kept), text.markup());
}

Value Replace(Runtime& runtime, std::string_view text, std::string_view from, std::string_view to,
              int64_t count) {
  if (!runtime.Step(static_cast<int64_t>(text.size()) / 16)) return Value::Failed();
  std::string out;
  size_t at = 0;
  const int64_t limit = runtime.limits().value_bytes;
  while (count != 0) {
    // Nothing is found before each character, and at the end.
    const size_t found = from.empty() ? at : text.find(from, at);
    if (found == std::string_view::npos) break;
    out.append(text.substr(at, found - at));
    out.append(to);
    if (static_cast<int64_t>(out.size()) > limit) {
      runtime.Exceeded("value_bytes", limit);
      return Value::Failed();
    }
    if (count > 0) --count;
    at = found + from.size();
    if (!from.empty()) continue;
    if (at == text.size()) break;
    const size_t next = ByteOffset(text, 1, at);
    out.append(text.substr(at, next - at));
    at = next;
  }
  if (at < text.size()) out.append(text.substr(at));
  return runtime.Text(std::move(out));
}

Value Pad(Runtime& runtime, const Value& text, const Value& width, const Value& fill, Align align) {
  if (!width.is_integer()) {
    return runtime.Fail("TypeError", absl::StrCat("'", std::string(TypeName(width)),
                                                  "' object cannot be interpreted as an integer"));
  }
  std::string_view with = " ";
  if (!fill.missing()) {
    if (!fill.is_string() || fill.string().Length() != 1) {
      return runtime.Fail("TypeError", "The fill character must be exactly one character long");
    }
    with = fill.text();
  }
  const int64_t missing = width.integer() - std::min(width.integer(), text.string().Length());
  if (missing == 0) return text;
  if (missing > runtime.limits().value_bytes / 4) {
    runtime.Exceeded("value_bytes", runtime.limits().value_bytes);
    return Value::Failed();
  }
  // Source: CPython, str.center: the odd blank is on the left where the width is odd.
  const int64_t left = align == Align::kLeft    ? 0
                       : align == Align::kRight ? missing
                                                : missing / 2 + (missing & width.integer() & 1);
  if (!runtime.Step(missing / 16)) return Value::Failed();
  std::string out;
  for (int64_t i = 0; i < left; ++i) out.append(with);
  out.append(text.text());
  for (int64_t i = left; i < missing; ++i) out.append(with);
  return runtime.Text(std::move(out), text.markup());
}

std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    const char32_t c = NextCodePoint(text, &at);
    if (!EndsLine(c)) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::vector<std::string_view> SplitSpaces(std::string_view text, int64_t most) {
  std::vector<std::string_view> words;
  text = StripLeft(text);
  while (!text.empty()) {
    if (most == 0) {
      words.push_back(text);
      break;
    }
    size_t end = 0;
    while (end < text.size()) {
      size_t next = end;
      if (IsSpace(NextCodePoint(text, &next))) break;
      end = next;
    }
    words.push_back(text.substr(0, end));
    text = StripLeft(text.substr(end));
    --most;
  }
  return words;
}

std::vector<std::string_view> SplitSpacesFromRight(std::string_view text, int64_t most) {
  std::vector<std::string_view> words;
  text = StripRight(text);
  while (!text.empty()) {
    if (most == 0) {
      words.push_back(text);
      break;
    }
    size_t begin = text.size();
    while (begin > 0) {
      size_t last = 0;
      if (IsSpace(LastCodePoint(text.substr(0, begin), &last))) break;
      begin = last;
    }
    words.push_back(text.substr(begin));
    text = StripRight(text.substr(0, begin));
    --most;
  }
  std::reverse(words.begin(), words.end());
  return words;
}

}  // namespace coxswain::data::jinja
