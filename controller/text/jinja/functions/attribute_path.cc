#include "controller/text/jinja/functions/attribute_path.h"

#include <algorithm>
#include <charconv>

#include "controller/text/jinja/functions/subscript.h"
#include "controller/text/jinja/values/unicode.h"

namespace coxswain::data::jinja {
namespace {

Value PathPart(std::string_view text) {
  int64_t index = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), index);
  const bool is_index = !text.empty() && read.ec == std::errc() &&
                        read.ptr == text.data() + text.size() && text[0] != '-';
  return is_index ? Value::Int(index) : Value::Text(std::string(text));
}

}  // namespace

AttributePath::AttributePath(const Value& attribute, bool ignores_case, Value otherwise)
    : ignores_case_(ignores_case), otherwise_(std::move(otherwise)) {
  if (attribute.is_string()) {
    std::string_view rest = attribute.text();
    while (true) {
      const size_t dot = rest.find('.');
      parts_.push_back(PathPart(rest.substr(0, dot)));
      if (dot == std::string_view::npos) break;
      rest = rest.substr(dot + 1);
    }
  } else if (!attribute.missing() && !attribute.is(Kind::kNone)) {
    parts_.push_back(attribute);
  }
}

Value AttributePath::Get(Runtime& runtime, const Value& item) const {
  Value value = item;
  for (const Value& part : parts_) {
    if (!runtime.Step()) return Value::Failed();
    value = GetItem(runtime, value, part);
    if (value.failed()) return value;
    const bool has_other = !otherwise_.missing() && !otherwise_.is(Kind::kNone);
    if (value.is(Kind::kUndefined) && has_other) value = otherwise_;
  }
  if (!ignores_case_ || !value.is_string()) return value;
  return runtime.Text(ToLower(value.text()), value.markup());
}

}  // namespace coxswain::data::jinja
