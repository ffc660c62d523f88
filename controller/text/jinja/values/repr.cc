#include "controller/text/jinja/values/repr.h"

#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "controller/text/jinja/values/loop.h"
#include "controller/text/jinja/values/unicode.h"

namespace coxswain::data::jinja {
namespace {

void AppendEscape(char32_t c, std::string* out) {
  char digits[16];
  if (c < 0x100) {
    std::snprintf(digits, sizeof(digits), "\\x%02x", static_cast<unsigned>(c));
  } else if (c < 0x10000) {
    std::snprintf(digits, sizeof(digits), "\\u%04x", static_cast<unsigned>(c));
  } else {
    std::snprintf(digits, sizeof(digits), "\\U%08x", static_cast<unsigned>(c));
  }
  out->append(digits);
}

// Containers are shared, so that the text of a small value may be long: each part is charged.
bool AppendItems(Runtime& runtime, const std::vector<Value>& items, std::string* out) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out->append(", ");
    if (!runtime.Step() || !AppendRepr(runtime, items[i], out)) return false;
  }
  return true;
}

bool AppendDict(Runtime& runtime, const Dict& dict, std::string* out) {
  out->push_back('{');
  bool first = true;
  for (const auto& [key, value] : dict.entries()) {
    if (!first) out->append(", ");
    first = false;
    if (!runtime.Step() || !AppendRepr(runtime, key, out)) return false;
    out->append(": ");
    if (!AppendRepr(runtime, value, out)) return false;
  }
  out->push_back('}');
  return true;
}

bool AppendView(Runtime& runtime, const View& view, std::string* out) {
  static constexpr const char* kNames[] = {"dict_keys([", "dict_values([", "dict_items(["};
  out->append(kNames[static_cast<int>(view.view)]);
  std::vector<Value> items;
  for (size_t i = 0; i < view.size(); ++i) items.push_back(view.At(i));
  if (!AppendItems(runtime, items, out)) return false;
  out->append("])");
  return true;
}

void AppendRange(const Range& range, std::string* out) {
  absl::StrAppend(out, "range(", range.start, ", ", range.stop);
  if (range.step != 1) absl::StrAppend(out, ", ", range.step);
  out->push_back(')');
}

bool AppendLoop(Runtime& runtime, const Value& value, std::string* out) {
  auto* loop = static_cast<Loop*>(value.object());
  const Value index = loop->Attribute(runtime, value, "index");
  const Value length = loop->Attribute(runtime, value, "length");
  if (length.failed()) return false;
  absl::StrAppend(out, "<LoopContext ", index.integer(), "/", length.integer(), ">");
  return true;
}

bool AppendContainer(Runtime& runtime, const Value& value, std::string* out) {
  switch (value.kind()) {
    case Kind::kList:
      out->push_back('[');
      if (!AppendItems(runtime, value.list().items, out)) return false;
      out->push_back(']');
      return true;
    case Kind::kTuple:
      out->push_back('(');
      if (!AppendItems(runtime, value.list().items, out)) return false;
      out->append(value.list().items.size() == 1 ? ",)" : ")");
      return true;
    case Kind::kDict:
      return AppendDict(runtime, value.dict(), out);
    case Kind::kView:
      return AppendView(runtime, *static_cast<const View*>(value.object()), out);
    case Kind::kLoop:
      return AppendLoop(runtime, value, out);
    default:
      // A namespace may hold itself: what it holds is not written.
      absl::StrAppend(out, "<", std::string(TypeName(value)), ">");
      return true;
  }
}

}  // namespace

void AppendReprOfText(std::string_view text, std::string* out) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  out->push_back(quote);
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = NextCodePoint(text, &at);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out->push_back('\\');
      out->push_back(static_cast<char>(c));
    } else if (c == '\n') {
      out->append("\\n");
    } else if (c == '\r') {
      out->append("\\r");
    } else if (c == '\t') {
      out->append("\\t");
    } else if (IsPrintable(c)) {
      out->append(text.substr(begin, at - begin));
    } else {
      AppendEscape(c, out);
    }
  }
  out->push_back(quote);
}

void AppendFloat(double value, std::string* out) {
  if (std::isnan(value)) {
    out->append("nan");
    return;
  }
  if (std::isinf(value)) {
    out->append(value < 0 ? "-inf" : "inf");
    return;
  }
  char digits[64];
  const double size = std::abs(value);
  const bool scientific = size != 0 && (size < 1e-4 || size >= 1e16);
  const auto format = scientific ? std::chars_format::scientific : std::chars_format::fixed;
  const char* end = std::to_chars(digits, digits + sizeof(digits), value, format).ptr;
  const std::string_view text(digits, static_cast<size_t>(end - digits));
  out->append(text);
  if (!scientific && text.find('.') == std::string_view::npos) out->append(".0");
}

void AppendEscaped(std::string_view text, std::string* out) {
  for (const char c : text) {
    switch (c) {
      case '&':
        out->append("&amp;");
        break;
      case '<':
        out->append("&lt;");
        break;
      case '>':
        out->append("&gt;");
        break;
      case '\'':
        out->append("&#39;");
        break;
      case '"':
        out->append("&#34;");
        break;
      default:
        out->push_back(c);
    }
  }
}

bool AppendRepr(Runtime& runtime, const Value& value, std::string* out) {
  switch (value.kind()) {
    case Kind::kString: {
      const size_t before = out->size();
      const auto size = static_cast<int64_t>(value.text().size());
      if (!runtime.Step(size / 16)) return false;
      if (value.markup()) out->append("Markup(");
      AppendReprOfText(value.text(), out);
      if (value.markup()) out->push_back(')');
      return runtime.Allocate(static_cast<int64_t>(out->size() - before));
    }
    case Kind::kUndefined:
      out->append("Undefined");
      return true;
    case Kind::kNone:
      out->append("None");
      return true;
    case Kind::kBool:
      out->append(value.integer() != 0 ? "True" : "False");
      return true;
    case Kind::kInt:
      absl::StrAppend(out, value.integer());
      return true;
    case Kind::kFloat:
      AppendFloat(value.number(), out);
      return true;
    case Kind::kBigInt:
      out->append(value.text());
      return true;
    case Kind::kRange:
      AppendRange(*static_cast<const Range*>(value.object()), out);
      return true;
    default:
      return AppendContainer(runtime, value, out);
  }
}

bool AppendStr(Runtime& runtime, const Value& value, std::string* out) {
  if (value.is_string()) {
    out->append(value.text());
    return true;
  }
  return value.is(Kind::kUndefined) || AppendRepr(runtime, value, out);
}

Value Str(Runtime& runtime, const Value& value) {
  if (value.is_string()) return value;
  std::string text;
  if (!AppendStr(runtime, value, &text)) return Value::Failed();
  return runtime.Text(std::move(text));
}

std::string ReprForMessage(const Value& value) {
  std::string text;
  if (value.is_string()) {
    AppendReprOfText(value.text().substr(0, 80), &text);
  } else if (value.is_integer()) {
    text = absl::StrCat(value.integer());
  } else if (value.is(Kind::kFloat)) {
    AppendFloat(value.number(), &text);
  } else {
    text = std::string(TypeName(value));
  }
  return text;
}

}  // namespace coxswain::data::jinja
