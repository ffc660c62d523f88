#include "controller/text/jinja/values/value.h"

#include "controller/text/jinja/values/unicode.h"

namespace coxswain::data::jinja {

Value Value::Float(double value) {
  Value result(Kind::kFloat, int64_t{0});
  result.payload_.real = value;
  return result;
}

Value Value::Text(std::string text, bool markup) {
  return Value(Kind::kString, new String(std::move(text), markup));
}

Value Value::Undefined(UndefinedBy by, const Value& name, Kind owner) {
  Value result(Kind::kUndefined, name.object(), static_cast<uint8_t>(by));
  result.owner_ = owner;
  return result;
}

int64_t String::Length() const {
  if (length_ < 0) length_ = CodePoints(text);
  return length_;
}

std::string_view TypeName(Kind kind) {
  switch (kind) {
    case Kind::kMissing:
    case Kind::kFailed:
      return "missing";
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
    case Kind::kBigInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kRange:
      return "range";
    case Kind::kView:
      return "dict view";
    case Kind::kIterator:
      return "generator";
    case Kind::kNamespace:
      return "TemplateNamespace";
    case Kind::kMacro:
      return "Macro";
    case Kind::kFunction:
      return "function";
    case Kind::kLoop:
      return "LoopContext";
    case Kind::kCycler:
      return "Cycler";
    case Kind::kJoiner:
      return "Joiner";
  }
  return "object";
}

}  // namespace coxswain::data::jinja
