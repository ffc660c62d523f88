// "..." % values
#include <cmath>

#include "absl/strings/str_cat.h"
#include "controller/text/jinja/values/operators.h"
#include "controller/text/jinja/values/repr.h"
#include "controller/text/jinja/values/unicode.h"

namespace coxswain::data::jinja {
namespace {

class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const Value& text, const Value& values)
      : runtime_(runtime), markup_(text.markup()), text_(text.text()), values_(values) {}

  Value Run() {
    if (!runtime_.Step(static_cast<int64_t>(text_.size()) / 16)) return Value::Failed();
    while (at_ < text_.size()) {
      const size_t percent = text_.find('%', at_);
      out_.append(text_.substr(at_, percent - at_));
      if (percent == std::string_view::npos) break;
      at_ = percent + 1;
      if (!Field()) return Value::Failed();
    }
    const bool all_used = !values_.is(Kind::kTuple)
                              ? used_ > 0 || named_ || values_.is(Kind::kDict) ||
                                    values_.is(Kind::kList) || values_.is(Kind::kRange) ||
                                    values_.is(Kind::kUndefined)
                              : used_ == values_.list().items.size() || named_;
    if (!all_used) {
      return runtime_.Fail("TypeError", "not all arguments converted during string formatting");
    }
    return runtime_.Text(std::move(out_), markup_);
  }

 private:
  bool Fail(const char* kind, std::string message) {
    runtime_.Fail(kind, std::move(message));
    return false;
  }

  bool More() { return at_ < text_.size() || Fail("ValueError", "incomplete format"); }

  bool NextValue(Value* value) {
    if (values_.is(Kind::kTuple)) {
      if (used_ >= values_.list().items.size()) {
        return Fail("TypeError", "not enough arguments for format string");
      }
      *value = values_.list().items[used_++];
      return true;
    }
    if (used_++ > 0) return Fail("TypeError", "not enough arguments for format string");
    *value = values_;
    return true;
  }

  bool Named(Value* value) {
    const size_t close = text_.find(')', at_);
    if (close == std::string_view::npos) return Fail("ValueError", "incomplete format key");
    if (!values_.is(Kind::kDict)) return Fail("TypeError", "format requires a mapping");
    const std::string key(text_.substr(at_ + 1, close - at_ - 1));
    at_ = close + 1;
    named_ = true;
    const Value* found = values_.dict().Find(std::string_view(key));
    if (found == nullptr) return Fail("KeyError", absl::StrCat("'", key, "'"));
    *value = *found;
    return true;
  }

  bool Number(int64_t* number) {
    if (at_ < text_.size() && text_[at_] == '*') {
      ++at_;
      Value value;
      if (!NextValue(&value)) return false;
      if (!value.is_integer()) return Fail("TypeError", "* wants int");
      *number = value.integer();
    }
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      *number = std::max<int64_t>(*number, 0) * 10 + (text_[at_++] - '0');
      if (*number > kMaxLayout) break;
    }
    return *number <= kMaxLayout || Fail("LimitError", "a format is wider than 100000");
  }

  bool Flags(Layout* layout) {
    for (; at_ < text_.size(); ++at_) {
      switch (text_[at_]) {
        case '-':
          layout->align = '<';
          break;
        case '+':
          layout->sign = '+';
          break;
        case ' ':
          if (layout->sign != '+') layout->sign = ' ';
          break;
        case '#':
          layout->alternate = true;
          break;
        case '0':
          layout->zero = true;
          break;
        default:
          return true;
      }
    }
    return true;
  }

  bool Field() {
    if (!More()) return false;
    Value value;
    if (text_[at_] == '(' && !Named(&value)) return false;
    Layout layout;
    if (!Flags(&layout) || !Number(&layout.width)) return false;
    if (layout.width < 0) {
      layout.align = '<';
      layout.width = -layout.width;
    }
    if (at_ < text_.size() && text_[at_] == '.') {
      ++at_;
      layout.precision = 0;
      if (!Number(&layout.precision)) return false;
    }
    while (at_ < text_.size() && (text_[at_] == 'l' || text_[at_] == 'h' || text_[at_] == 'L')) {
      ++at_;
    }
    if (!More()) return false;
    layout.type = text_[at_++];
    if (layout.type == '%') {
      out_.push_back('%');
      return true;
    }
    if (value.missing() && !NextValue(&value)) return false;
    return Convert(value, layout);
  }

  bool Convert(const Value& value, Layout layout) {
    switch (layout.type) {
      case 's':
      case 'r':
      case 'a':
        return ConvertText(value, layout);
      case 'c':
        if (value.is_string() && value.string().Length() == 1) return ConvertText(value, layout);
        if (!value.is_integer()) return Fail("TypeError", "%c requires int or char");
        layout.precision = -1;
        return ConvertNumber(value, layout);
      case 'i':
      case 'u':
        layout.type = 'd';
        [[fallthrough]];
      case 'd':
        if (value.is(Kind::kFloat)) {
          if (!(std::abs(value.number()) < 9.2e18)) {
            return Fail("OverflowError", "a float is too large for an integer");
          }
          return ConvertNumber(Value::Int(static_cast<int64_t>(value.number())), layout);
        }
        [[fallthrough]];
      case 'x':
      case 'X':
      case 'o':
        if (!value.is_integer()) return NeedsNumber(value, layout);
        return ConvertNumber(value, layout);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        if (!value.is_number())
          return Fail("TypeError", "must be real number, not " + std::string(TypeName(value)));
        return ConvertNumber(Value::Float(value.number()), layout);
      default:
        return Fail("ValueError", absl::StrCat("unsupported format character '",
                                               std::string(1, layout.type), "'"));
    }
  }

  bool NeedsNumber(const Value& value, const Layout& layout) {
    return Fail("TypeError", absl::StrCat("%", std::string(1, layout.type),
                                          " format: a real number is "
                                          "required, not ",
                                          std::string(TypeName(value))));
  }

  bool ConvertText(const Value& value, Layout layout) {
    std::string text;
    const bool shown = layout.type == 's' || layout.type == 'c'
                           ? AppendStr(runtime_, value, &text)
                           : AppendRepr(runtime_, value, &text);
    if (!shown) return false;
    if (markup_ && !value.markup()) {
      std::string escaped;
      AppendEscaped(text, &escaped);
      text = std::move(escaped);
    }
    if (layout.precision >= 0) text.resize(ByteOffset(text, layout.precision));
    layout.zero = false;
    out_ += LayOut(layout, '>', "", text);
    return runtime_.Allocate(static_cast<int64_t>(text.size()));
  }

  bool ConvertNumber(const Value& value, Layout layout) {
    std::string sign;
    std::string digits;
    const int64_t precision = layout.precision;
    if (value.is_integer()) layout.precision = -1;
    if (!FormatNumber(runtime_, value, layout, &sign, &digits)) return false;
    if (value.is_integer() && precision > static_cast<int64_t>(digits.size())) {
      digits.insert(0, static_cast<size_t>(precision) - digits.size(), '0');
    }
    if (layout.align == '<') layout.zero = false;
    out_ += LayOut(layout, '>', sign, digits);
    return runtime_.Allocate(static_cast<int64_t>(digits.size()));
  }

  Runtime& runtime_;
  const bool markup_;
  const std::string_view text_;
  const Value& values_;
  size_t at_ = 0;
  size_t used_ = 0;
  bool named_ = false;
  std::string out_;
};

}  // namespace

Value FormatPercent(Runtime& runtime, const Value& text, const Value& values) {
  return PercentFormatter(runtime, text, values).Run();
}

}  // namespace coxswain::data::jinja
