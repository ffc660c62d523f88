// "...".format(...)
#include <charconv>

#include "absl/strings/str_cat.h"
#include "controller/text/jinja/functions/subscript.h"
#include "controller/text/jinja/syntax/builtins.h"
#include "controller/text/jinja/values/operators.h"
#include "controller/text/jinja/values/repr.h"
#include "controller/text/jinja/values/unicode.h"

namespace coxswain::data::jinja {
namespace {

bool AllDigits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

class BracesFormatter {
 public:
  BracesFormatter(Runtime& runtime, Arguments& arguments, bool markup)
      : runtime_(runtime), arguments_(arguments), markup_(markup) {}

  // Python allows fields inside of specifications, one level of them.
  bool Run(std::string_view text, int level, std::string* out) {
    if (!runtime_.Step(1 + static_cast<int64_t>(text.size()) / 16)) return false;
    for (size_t at = 0; at < text.size();) {
      const char c = text[at++];
      const bool doubled = at < text.size() && text[at] == c;
      if (c != '{' && c != '}') {
        out->push_back(c);
      } else if (doubled) {
        out->push_back(c);
        ++at;
      } else if (c == '}') {
        return Fail("ValueError", "Single '}' encountered in format string");
      } else {
        const size_t end = FieldEnd(text, at);
        if (end == std::string_view::npos) {
          return Fail("ValueError", "expected '}' before end of string");
        }
        if (!Field(text.substr(at, end - at), level, out)) return false;
        at = end + 1;
      }
    }
    return true;
  }

 private:
  bool Fail(const char* kind, std::string message) {
    runtime_.Fail(kind, std::move(message));
    return false;
  }

  static size_t FieldEnd(std::string_view text, size_t at) {
    int open = 1;
    for (; at < text.size(); ++at) {
      if (text[at] == '{') ++open;
      if (text[at] == '}' && --open == 0) return at;
    }
    return std::string_view::npos;
  }

  bool Field(std::string_view field, int level, std::string* out) {
    if (level > 1) return Fail("ValueError", "Max string recursion exceeded");
    size_t name_end = 0;
    bool in_brackets = false;
    for (; name_end < field.size(); ++name_end) {
      if (field[name_end] == '[') in_brackets = true;
      if (field[name_end] == ']') in_brackets = false;
      if (!in_brackets && (field[name_end] == ':' || field[name_end] == '!')) break;
    }
    const std::string_view name = field.substr(0, name_end);
    std::string_view rest = field.substr(name_end);
    char conversion = '\0';
    if (!rest.empty() && rest[0] == '!') {
      if (rest.size() < 2 || (rest.size() > 2 && rest[2] != ':')) {
        return Fail("ValueError", "expected ':' after conversion specifier");
      }
      conversion = rest[1];
      rest = rest.substr(2);
    }
    Value value;
    std::string specification;
    if (!Look(name, &value)) return false;
    if (!rest.empty() && !Run(rest.substr(1), level + 1, &specification)) return false;
    return Show(value, conversion, specification, out);
  }

  bool Argument(std::string_view name, Value* value) {
    if (name.empty() || AllDigits(name)) {
      size_t index = next_;
      if (name.empty()) {
        ++next_;
      } else if (std::from_chars(name.data(), name.data() + name.size(), index).ec != std::errc()) {
        return Fail("ValueError", "Too many decimal digits in format string");
      }
      (name.empty() ? automatic_ : manual_) = true;
      if (automatic_ && manual_) {
        return Fail("ValueError", "cannot switch between manual and automatic field numbering");
      }
      if (index >= arguments_.positional.size()) {
        return Fail("IndexError", absl::StrCat("Replacement index ", index,
                                               " out of range for positional args tuple"));
      }
      *value = arguments_.positional[index];
      return true;
    }
    for (const auto& [given, argument] : arguments_.named) {
      if (given.text() != name) continue;
      *value = argument;
      return true;
    }
    return Fail("KeyError", absl::StrCat("'", std::string(name), "'"));
  }

  // name, then .attributes and [subscripts].
  bool Look(std::string_view path, Value* value) {
    const size_t first = std::min(path.find_first_of(".["), path.size());
    if (!Argument(path.substr(0, first), value)) return false;
    for (size_t at = first; at < path.size();) {
      if (path[at] == '.') {
        const size_t end = std::min(path.find_first_of(".[", at + 1), path.size());
        const std::string_view name = path.substr(at + 1, end - at - 1);
        if (name.empty()) return Fail("ValueError", "Empty attribute in format string");
        *value = GetAttribute(runtime_, *value, Value::Text(std::string(name)), FindMethods(name));
        at = end;
      } else {
        const size_t end = path.find(']', at);
        if (path[at] != '[' || end == std::string_view::npos) {
          return Fail("ValueError", "Missing ']' in format string");
        }
        const std::string_view key = path.substr(at + 1, end - at - 1);
        if (key.empty()) return Fail("ValueError", "Empty attribute in format string");
        int64_t index = 0;
        const bool is_index =
            AllDigits(key) &&
            std::from_chars(key.data(), key.data() + key.size(), index).ec == std::errc();
        *value =
            GetItem(runtime_, *value, is_index ? Value::Int(index) : Value::Text(std::string(key)));
        at = end + 1;
      }
      if (value->failed()) return false;
    }
    return true;
  }

  bool Show(const Value& value, char conversion, std::string_view specification, std::string* out) {
    Value shown = value;
    if (conversion == 'r' || conversion == 'a') {
      std::string text;
      if (!AppendRepr(runtime_, value, &text)) return false;
      shown = runtime_.Text(std::move(text));
    } else if (conversion == 's') {
      shown = Str(runtime_, value);
    } else if (conversion != '\0') {
      return Fail("ValueError",
                  absl::StrCat("Unknown conversion specifier ", std::string(1, conversion)));
    }
    if (shown.failed()) return false;
    std::string text;
    if (!WithSpecification(shown, specification, &text)) return false;
    if (markup_ && !shown.markup()) {
      AppendEscaped(text, out);
    } else {
      out->append(text);
    }
    return runtime_.Allocate(static_cast<int64_t>(text.size()));
  }

  bool WithSpecification(const Value& value, std::string_view specification, std::string* text) {
    if (specification.empty()) return AppendStr(runtime_, value, text);
    Layout layout;
    if (!Parse(specification, &layout)) return false;
    if (value.is_string()) {
      if (layout.type != '\0' && layout.type != 's') {
        return Fail("ValueError", absl::StrCat("Unknown format code '", std::string(1, layout.type),
                                               "' for object of type 'str'"));
      }
      std::string_view kept = value.text();
      if (layout.precision >= 0) kept = kept.substr(0, ByteOffset(kept, layout.precision));
      if (layout.align == '=') {
        return Fail("ValueError", "'=' alignment not allowed in string format specifier");
      }
      if (layout.zero && layout.align == '\0') {
        layout.fill = "0";
        layout.align = '<';
      }
      *text = LayOut(layout, '<', "", kept);
      return true;
    }
    if (!value.is_number()) {
      return Fail("TypeError", absl::StrCat("unsupported format string passed to ",
                                            std::string(TypeName(value)), ".__format__"));
    }
    const bool shows_bool = value.is(Kind::kBool) && layout.type == '\0';
    std::string sign;
    std::string digits;
    if (shows_bool) {
      digits = absl::StrCat(value.integer());
    } else if (!FormatNumber(runtime_, value, layout, &sign, &digits)) {
      return false;
    }
    *text = LayOut(layout, '>', sign, digits);
    return true;
  }

  bool ReadNumber(std::string_view text, size_t* at, int64_t* number) {
    while (*at < text.size() && text[*at] >= '0' && text[*at] <= '9') {
      *number = std::max<int64_t>(*number, 0) * 10 + (text[(*at)++] - '0');
      if (*number > kMaxLayout) return Fail("LimitError", "a format is wider than 100000");
    }
    return true;
  }

  // [[fill]align][sign][#][0][width][grouping][.precision][type]
  bool Parse(std::string_view text, Layout* layout) {
    constexpr std::string_view kAligns = "<>^=";
    size_t at = ByteOffset(text, 1);
    if (at < text.size() && kAligns.find(text[at]) != std::string_view::npos) {
      layout->fill = text.substr(0, at);
      layout->align = text[at++];
    } else {
      at = 0;
      if (kAligns.find(text[0]) != std::string_view::npos) layout->align = text[at++];
    }
    const auto take = [&](std::string_view any) {
      return at < text.size() && any.find(text[at]) != std::string_view::npos ? text[at++] : '\0';
    };
    if (const char sign = take("+- "); sign != '\0') layout->sign = sign;
    layout->alternate = take("#") != '\0';
    layout->zero = take("0") != '\0';
    if (!ReadNumber(text, &at, &layout->width)) return false;
    layout->grouping = take(",_");
    if (take(".") != '\0') {
      const size_t begin = at;
      if (!ReadNumber(text, &at, &layout->precision)) return false;
      if (at == begin) return Fail("ValueError", "Format specifier missing precision");
    }
    if (at < text.size()) layout->type = text[at++];
    return at == text.size() || Fail("ValueError", "Invalid format specifier");
  }

  Runtime& runtime_;
  Arguments& arguments_;
  const bool markup_;
  size_t next_ = 0;
  bool automatic_ = false;
  bool manual_ = false;
};

}  // namespace

Value FormatBraces(Runtime& runtime, const Value& text, Arguments& arguments) {
  std::string out;
  BracesFormatter formatter(runtime, arguments, text.markup());
  if (!formatter.Run(text.text(), 0, &out)) return Value::Failed();
  return runtime.Text(std::move(out), text.markup());
}

}  // namespace coxswain::data::jinja
