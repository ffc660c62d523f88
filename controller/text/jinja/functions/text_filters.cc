// Filters from text to text.
#include <algorithm>
#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "controller/text/jinja/syntax/builtins.h"
#include "controller/text/jinja/values/cursor.h"
#include "controller/text/jinja/values/operators.h"
#include "controller/text/jinja/values/repr.h"
#include "controller/text/jinja/values/string_functions.h"
#include "controller/text/jinja/values/unicode.h"

namespace coxswain::data::jinja {
namespace {

bool NoArguments(Runtime& runtime, std::string_view name, Arguments& arguments) {
  return Bind(runtime, name, arguments, {}, 0, nullptr);
}

template <std::string (*convert)(std::string_view)>
Value Converted(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (!NoArguments(runtime, "filter", arguments)) return Value::Failed();
  const Value text = Str(runtime, self);
  return text.failed() ? text : runtime.Text(convert(text.text()), text.markup());
}

// Source: jinja2 3.1, filters.py, do_title: words also begin after - ( { [ <.
std::string TitleWords(std::string_view text) {
  std::string out;
  size_t word = 0;
  const auto flush = [&](size_t end) {
    if (end == word) return;
    const size_t first = ByteOffset(text, 1, word);
    out += ToUpper(text.substr(word, first - word)) + ToLower(text.substr(first, end - first));
  };
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = NextCodePoint(text, &at);
    const bool splits = IsSpace(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    if (!splits) continue;
    flush(begin);
    out.append(text.substr(begin, at - begin));
    word = at;
  }
  flush(text.size());
  return out;
}

Value ToString(Runtime& runtime, const Value& self, Arguments& arguments) {
  return NoArguments(runtime, "string", arguments) ? Str(runtime, self) : Value::Failed();
}

Value Safe(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (!NoArguments(runtime, "safe", arguments)) return Value::Failed();
  const Value text = Str(runtime, self);
  return text.failed() ? text : runtime.Text(std::string(text.text()), true);
}

Value EscapeText(Runtime& runtime, const Value& self, bool again) {
  const Value text = Str(runtime, self);
  if (text.failed() || (text.markup() && !again)) return text;
  std::string out;
  AppendEscaped(text.text(), &out);
  return runtime.Text(std::move(out), true);
}

Value Escape(Runtime& runtime, const Value& self, Arguments& arguments) {
  return NoArguments(runtime, "escape", arguments) ? EscapeText(runtime, self, false)
                                                   : Value::Failed();
}

Value ForceEscape(Runtime& runtime, const Value& self, Arguments& arguments) {
  return NoArguments(runtime, "forceescape", arguments) ? EscapeText(runtime, self, true)
                                                        : Value::Failed();
}

Value Trim(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value chars;
  if (!Bind(runtime, "do_trim", arguments, {"chars"}, 0, &chars)) return Value::Failed();
  const Value text = Str(runtime, self);
  return text.failed() ? text : Strip(runtime, text, chars, true, true);
}

Value ReplaceText(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value given[3];
  if (!Bind(runtime, "do_replace", arguments, {"old", "new", "count"}, 2, given)) {
    return Value::Failed();
  }
  int64_t count = -1;
  if (!given[2].missing() && !given[2].is(Kind::kNone)) {
    if (!given[2].is_integer()) return runtime.Fail("TypeError", "replace: count is no integer");
    count = given[2].integer();
  }
  const Value text = Str(runtime, self);
  const Value from = Str(runtime, given[0]);
  const Value to = Str(runtime, given[1]);
  if (text.failed() || from.failed() || to.failed()) return Value::Failed();
  return Replace(runtime, text.text(), from.text(), to.text(), count);
}

Value Center(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value width;
  if (!Bind(runtime, "do_center", arguments, {"width"}, 0, &width)) return Value::Failed();
  const Value text = Str(runtime, self);
  if (text.failed()) return text;
  return Pad(runtime, text, width.missing() ? Value::Int(80) : width, Value(), Align::kCenter);
}

Value Indent(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value given[3];
  if (!Bind(runtime, "do_indent", arguments, {"width", "first", "blank"}, 0, given)) {
    return Value::Failed();
  }
  if (!self.is_string()) {
    if (self.is(Kind::kList)) {
      return runtime.Fail("AttributeError", "'list' object has no attribute 'splitlines'");
    }
    const Value newline = Value::Text("\n");
    return Arithmetic(runtime, Operator::kAdd, self, newline);  // fails as Python does
  }
  std::string indention(4, ' ');
  if (given[0].is_string()) {
    indention = given[0].text();
  } else if (given[0].is_integer()) {
    const int64_t width = std::max<int64_t>(given[0].integer(), 0);
    if (!runtime.Allocate(width)) return Value::Failed();
    indention.assign(static_cast<size_t>(width), ' ');
  } else if (!given[0].missing()) {
    return runtime.Fail("TypeError", "can't multiply sequence by non-int");
  }
  const std::string text = absl::StrCat(std::string(self.text()), "\n");
  const std::vector<std::string_view> lines = SplitLines(text, false);
  const auto bytes = static_cast<int64_t>(lines.size() * indention.size());
  if (!runtime.Allocate(bytes) || !runtime.Step(bytes / 16)) return Value::Failed();
  std::string out;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.push_back('\n');
    const bool indents = i == 0 ? Truth(given[1]) : Truth(given[2]) || !lines[i].empty();
    if (indents) out.append(indention);
    out.append(lines[i]);
  }
  return runtime.Text(std::move(out), self.markup());
}

Value Truncate(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value given[4];
  if (!Bind(runtime, "do_truncate", arguments, {"length", "killwords", "end", "leeway"}, 0,
            given)) {
    return Value::Failed();
  }
  const Value end = given[2].missing() ? Value::Text("...") : given[2];
  const Value length = given[0].missing() ? Value::Int(255) : given[0];
  const bool no_leeway = given[3].missing() || given[3].is(Kind::kNone);
  const Value leeway = no_leeway ? Value::Int(5) : given[3];
  if (!end.is_string() || !length.is_integer() || !leeway.is_integer()) {
    return runtime.Fail("TypeError", "truncate: an argument has the wrong type");
  }
  const int64_t end_length = end.string().Length();
  if (length.integer() < end_length || leeway.integer() < 0) {
    return runtime.Fail("AssertionError",
                        absl::StrCat("expected length >= ", end_length, " and leeway >= 0, got ",
                                     length.integer(), " and ", leeway.integer()));
  }
  const int64_t size = LengthOf(self);
  if (size < 0) {
    return runtime.Fail("TypeError", absl::StrCat("object of type '", std::string(TypeName(self)),
                                                  "' has no len()"));
  }
  if (size <= length.integer() || size - length.integer() <= leeway.integer()) return self;
  if (!self.is_string()) {
    return runtime.Fail(self.is_sequence() ? "AttributeError" : "TypeError",
                        "truncate: the value is no text");
  }
  std::string_view kept =
      self.text().substr(0, ByteOffset(self.text(), length.integer() - end_length));
  if (!Truth(given[1])) kept = kept.substr(0, kept.rfind(' '));
  return runtime.Text(absl::StrCat(std::string(kept), std::string(end.text())));
}

Value WordCount(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (!NoArguments(runtime, "wordcount", arguments)) return Value::Failed();
  const Value text = Str(runtime, self);
  if (text.failed()) return text;
  int64_t words = 0;
  bool in_word = false;
  for (size_t at = 0; at < text.text().size();) {
    const char32_t c = NextCodePoint(text.text(), &at);
    const bool is_word = c == '_' || IsAlpha(c) || IsNumeric(c);
    words += is_word && !in_word ? 1 : 0;
    in_word = is_word;
  }
  return Value::Int(words);
}

void AppendQuoted(std::string_view text, bool for_query, std::string* out) {
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && !for_query);
    if (plain) {
      out->push_back(c);
    } else if (c == ' ' && for_query) {
      out->push_back('+');
    } else {
      char digits[4];
      std::snprintf(digits, sizeof(digits), "%%%02X", static_cast<unsigned char>(c));
      out->append(digits);
    }
  }
}

Value UrlEncode(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (!NoArguments(runtime, "urlencode", arguments)) return Value::Failed();
  std::string out;
  if (self.is_string() || !IsIterable(self)) {
    const Value text = Str(runtime, self);
    if (text.failed()) return text;
    AppendQuoted(text.text(), false, &out);
    return runtime.Text(std::move(out));
  }
  std::vector<Value> pairs;
  const Value source = self.is(Kind::kDict)
                           ? runtime.New(Kind::kView, std::make_unique<View>(self, ViewOf::kItems))
                           : self;
  if (source.failed() || !Collect(runtime, source, &pairs)) return Value::Failed();
  for (const Value& pair : pairs) {
    std::vector<Value> items;
    if (!Collect(runtime, pair, &items)) return Value::Failed();
    if (items.size() != 2) return runtime.Fail("ValueError", "urlencode: an item is no pair");
    const Value key = Str(runtime, items[0]);
    const Value value = Str(runtime, items[1]);
    if (key.failed() || value.failed()) return Value::Failed();
    if (!out.empty()) out.push_back('&');
    AppendQuoted(key.text(), true, &out);
    out.push_back('=');
    AppendQuoted(value.text(), true, &out);
  }
  return runtime.Text(std::move(out));
}

// Source: markupsafe 3.0: comments and tags out, white space to single blanks, entities resolved.
Value StripTags(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (!NoArguments(runtime, "striptags", arguments)) return Value::Failed();
  const Value value = Str(runtime, self);
  if (value.failed()) return value;
  std::string text(value.text());
  for (const auto& [open, close] : {std::pair("<!--", "-->"), std::pair("<", ">")}) {
    std::string kept;
    size_t at = 0;
    while (true) {
      const size_t begin = text.find(open, at);
      const size_t end = begin == std::string::npos ? begin : text.find(close, begin);
      if (end == std::string::npos) break;
      kept.append(text, at, begin - at);
      at = end + std::string_view(close).size();
    }
    text = kept.append(text, at);
  }
  std::string joined;
  for (const std::string_view word : SplitSpaces(text, -1)) {
    absl::StrAppend(&joined, joined.empty() ? "" : " ", std::string(word));
  }
  for (const auto& [entity, character] :
       {std::pair("&lt;", "<"), std::pair("&gt;", ">"), std::pair("&#39;", "'"),
        std::pair("&#34;", "\""), std::pair("&quot;", "\""), std::pair("&amp;", "&")}) {
    for (size_t at = joined.find(entity); at != std::string::npos;
         at = joined.find(entity, at + 1)) {
      joined.replace(at, std::string_view(entity).size(), character);
    }
  }
  return runtime.Text(std::move(joined));
}

Value Format(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    return runtime.Fail("FilterArgumentError",
                        "can't handle positional and keyword arguments at the same time");
  }
  const Value text = Str(runtime, self);
  if (text.failed()) return text;
  if (arguments.named.empty()) {
    std::vector<Value> items(arguments.positional.begin(), arguments.positional.end());
    const Value tuple = runtime.NewTuple(std::move(items));
    return tuple.failed() ? tuple : FormatPercent(runtime, text, tuple);
  }
  auto dict = std::make_unique<Dict>();
  for (const auto& [name, value] : arguments.named) dict->Set(name, value);
  const Value named = runtime.NewDict(std::move(dict));
  return named.failed() ? named : FormatPercent(runtime, text, named);
}

constexpr Builtin kTextFilters[] = {
    {"upper", &Converted<ToUpper>},
    {"lower", &Converted<ToLower>},
    {"capitalize", &Converted<Capitalize>},
    {"title", &Converted<TitleWords>},
    {"string", &ToString},
    {"safe", &Safe},
    {"e", &Escape},
    {"escape", &Escape},
    {"forceescape", &ForceEscape},
    {"trim", &Trim},
    {"replace", &ReplaceText},
    {"center", &Center},
    {"indent", &Indent},
    {"truncate", &Truncate},
    {"wordcount", &WordCount},
    {"urlencode", &UrlEncode},
    {"striptags", &StripTags},
    {"format", &Format},
    {"tojson", &ToJson},
};

}  // namespace

std::span<const Builtin> TextFilters() { return kTextFilters; }

}  // namespace coxswain::data::jinja
