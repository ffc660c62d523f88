// Methods of strings that search or ask.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "controller/text/jinja/syntax/builtins.h"
#include "controller/text/jinja/values/unicode.h"

namespace coxswain::data::jinja {
namespace {

// The part of a text that start and end of a search leave, as bytes.
struct Searched {
  size_t begin = 0;
  size_t end = 0;
  bool empty = false;  // the start is behind the end: not even nothing is found
};

bool ReadEdge(Runtime& runtime, const Value& given, int64_t length, int64_t* edge) {
  if (given.missing() || given.is(Kind::kNone)) return true;
  if (!given.is_integer()) {
    runtime.Fail("TypeError", "slice indices must be integers or None or have an __index__ method");
    return false;
  }
  *edge = given.integer() < 0 ? std::max<int64_t>(given.integer() + length, 0) : given.integer();
  return true;
}

bool ReadSearched(Runtime& runtime, const Value& self, const Value* edges, Searched* part) {
  const int64_t length = self.string().Length();
  int64_t start = 0;
  int64_t end = length;
  if (!ReadEdge(runtime, edges[0], length, &start)) return false;
  if (!ReadEdge(runtime, edges[1], length, &end)) return false;
  end = std::min(end, length);
  part->empty = start > end;
  if (!runtime.Step(static_cast<int64_t>(self.text().size()) / 16)) return false;
  if (part->empty) return true;
  part->begin = ByteOffset(self.text(), start);
  part->end = end == length ? self.text().size() : ByteOffset(self.text(), end);
  return true;
}

// The code point at which `wanted` is found; -1: nowhere. False after a failure.
bool FindText(Runtime& runtime, const Value& self, Arguments& arguments, bool from_right,
              int64_t* found) {
  Value given[3];
  if (!Bind(runtime, "find", arguments, {"sub", "start", "end"}, 1, given)) return false;
  if (!given[0].is_string()) {
    runtime.Fail("TypeError", absl::StrCat("must be str, not ", std::string(TypeName(given[0]))));
    return false;
  }
  Searched part;
  if (!ReadSearched(runtime, self, given + 1, &part)) return false;
  *found = -1;
  if (part.empty) return true;
  const std::string_view text = self.text().substr(part.begin, part.end - part.begin);
  const size_t at = from_right ? text.rfind(given[0].text()) : text.find(given[0].text());
  if (at != std::string_view::npos) *found = CodePoints(self.text().substr(0, part.begin + at));
  return true;
}

template <bool from_right>
Value FindMethod(Runtime& runtime, const Value& self, Arguments& arguments) {
  int64_t found = 0;
  if (!FindText(runtime, self, arguments, from_right, &found)) return Value::Failed();
  return Value::Int(found);
}

template <bool from_right>
Value IndexMethod(Runtime& runtime, const Value& self, Arguments& arguments) {
  int64_t found = 0;
  if (!FindText(runtime, self, arguments, from_right, &found)) return Value::Failed();
  if (found < 0) return runtime.Fail("ValueError", "substring not found");
  return Value::Int(found);
}

Value Count(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value given[3];
  if (!Bind(runtime, "count", arguments, {"sub", "start", "end"}, 1, given)) {
    return Value::Failed();
  }
  if (!given[0].is_string()) {
    return runtime.Fail("TypeError",
                        absl::StrCat("must be str, not ", std::string(TypeName(given[0]))));
  }
  Searched part;
  if (!ReadSearched(runtime, self, given + 1, &part)) return Value::Failed();
  if (part.empty) return Value::Int(0);
  const std::string_view text = self.text().substr(part.begin, part.end - part.begin);
  const std::string_view wanted = given[0].text();
  if (wanted.empty()) return Value::Int(CodePoints(text) + 1);
  int64_t count = 0;
  for (size_t at = text.find(wanted); at != std::string_view::npos;
       at = text.find(wanted, at + wanted.size())) {
    ++count;
  }
  return Value::Int(count);
}

template <bool at_start>
Value HasAffix(Runtime& runtime, const Value& self, Arguments& arguments) {
  constexpr const char* kName = at_start ? "startswith" : "endswith";
  Value given[3];
  if (!Bind(runtime, kName, arguments, {"affix", "start", "end"}, 1, given)) {
    return Value::Failed();
  }
  std::vector<Value> affixes{given[0]};
  if (given[0].is(Kind::kTuple)) affixes = given[0].list().items;
  Searched part;
  if (!ReadSearched(runtime, self, given + 1, &part)) return Value::Failed();
  const std::string_view text = self.text().substr(part.begin, part.end - part.begin);
  bool has = false;
  for (const Value& affix : affixes) {
    if (!affix.is_string()) {
      return runtime.Fail("TypeError",
                          absl::StrCat(kName, " first arg must be str or a tuple of str, not ",
                                       std::string(TypeName(affix))));
    }
    if (has || part.empty || affix.text().size() > text.size()) continue;
    const size_t at = at_start ? 0 : text.size() - affix.text().size();
    has = text.substr(at, affix.text().size()) == affix.text();
  }
  return Value::Bool(has);
}

// All characters are of a class, and there is one.
template <bool (*is)(char32_t)>
Value AllAre(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (!Bind(runtime, "str method", arguments, {}, 0, nullptr)) return Value::Failed();
  if (self.text().empty()) return Value::Bool(false);
  for (size_t at = 0; at < self.text().size();) {
    if (!is(NextCodePoint(self.text(), &at))) return Value::Bool(false);
  }
  return Value::Bool(true);
}

bool IsAlphanumeric(char32_t c) { return IsAlpha(c) || IsNumeric(c); }

Value IsAscii(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (!Bind(runtime, "isascii", arguments, {}, 0, nullptr)) return Value::Failed();
  return Value::Bool(self.string().ascii());
}

Value IsPrintableMethod(Runtime& runtime, const Value& self, Arguments& arguments) {
  return self.text().empty() ? Value::Bool(true) : AllAre<IsPrintable>(runtime, self, arguments);
}

Value IsIdentifier(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (!Bind(runtime, "isidentifier", arguments, {}, 0, nullptr)) return Value::Failed();
  bool first = true;
  for (size_t at = 0; at < self.text().size(); first = false) {
    const char32_t c = NextCodePoint(self.text(), &at);
    if (c != '_' && !IsAlpha(c) && (first || !IsDecimal(c))) return Value::Bool(false);
  }
  return Value::Bool(!first);
}

// Cased letters are all of the one case, and there is one.
template <bool (*wanted)(char32_t), bool (*other)(char32_t)>
Value IsCase(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (!Bind(runtime, "str method", arguments, {}, 0, nullptr)) return Value::Failed();
  bool any = false;
  for (size_t at = 0; at < self.text().size();) {
    const char32_t c = NextCodePoint(self.text(), &at);
    if (other(c) || IsTitle(c)) return Value::Bool(false);
    any |= wanted(c);
  }
  return Value::Bool(any);
}

Value IsTitleCased(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (!Bind(runtime, "istitle", arguments, {}, 0, nullptr)) return Value::Failed();
  bool any = false;
  bool in_word = false;
  for (size_t at = 0; at < self.text().size();) {
    const char32_t c = NextCodePoint(self.text(), &at);
    const bool starts = IsUpper(c) || IsTitle(c);
    if (starts == in_word && (starts || IsLower(c))) return Value::Bool(false);
    in_word = starts || IsLower(c);
    any |= in_word;
  }
  return Value::Bool(any);
}

constexpr Builtin kStringTestMethods[] = {
    {"find", &FindMethod<false>},
    {"rfind", &FindMethod<true>},
    {"index", &IndexMethod<false>},
    {"rindex", &IndexMethod<true>},
    {"count", &Count},
    {"startswith", &HasAffix<true>},
    {"endswith", &HasAffix<false>},
    {"isalpha", &AllAre<IsAlpha>},
    {"isalnum", &AllAre<IsAlphanumeric>},
    {"isdecimal", &AllAre<IsDecimal>},
    {"isdigit", &AllAre<IsDigit>},
    {"isnumeric", &AllAre<IsNumeric>},
    {"isspace", &AllAre<IsSpace>},
    {"isascii", &IsAscii},
    {"isprintable", &IsPrintableMethod},
    {"isidentifier", &IsIdentifier},
    {"islower", &IsCase<IsLower, IsUpper>},
    {"isupper", &IsCase<IsUpper, IsLower>},
    {"istitle", &IsTitleCased},
};

}  // namespace

std::span<const Builtin> StringTestMethods() { return kStringTestMethods; }

}  // namespace coxswain::data::jinja
