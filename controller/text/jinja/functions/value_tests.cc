// Tests: value is NAME.
#include "absl/strings/str_cat.h"
#include "controller/text/jinja/syntax/builtins.h"
#include "controller/text/jinja/values/cursor.h"
#include "controller/text/jinja/values/operators.h"
#include "controller/text/jinja/values/repr.h"
#include "controller/text/jinja/values/unicode.h"

namespace coxswain::data::jinja {
namespace {

template <bool (*is)(const Value&)>
Value Asked(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (!Bind(runtime, "test", arguments, {}, 0, nullptr)) return Value::Failed();
  return Value::Bool(is(self));
}

bool IsDefined(const Value& value) { return !value.is(Kind::kUndefined); }
bool IsUndefined(const Value& value) { return value.is(Kind::kUndefined); }
bool IsNone(const Value& value) { return value.is(Kind::kNone); }
bool IsBoolean(const Value& value) { return value.is(Kind::kBool); }
bool IsTrue(const Value& value) { return value.is(Kind::kBool) && value.integer() != 0; }
bool IsFalse(const Value& value) { return value.is(Kind::kBool) && value.integer() == 0; }
bool IsInteger(const Value& value) { return value.is(Kind::kInt) || value.is(Kind::kBigInt); }
bool IsFloat(const Value& value) { return value.is(Kind::kFloat); }
bool IsNumber(const Value& value) { return value.is_number() || value.is(Kind::kBigInt); }
bool IsString(const Value& value) { return value.is_string(); }
bool IsMapping(const Value& value) { return value.is(Kind::kDict); }
bool IsEscaped(const Value& value) { return value.markup(); }

// It has a length and subscripts.
bool IsSequence(const Value& value) {
  return value.is_string() || value.is_sequence() || value.is(Kind::kDict) ||
         value.is(Kind::kRange) || value.is(Kind::kUndefined);
}

bool IsCallable(const Value& value) {
  return value.is(Kind::kMacro) || value.is(Kind::kFunction) || value.is(Kind::kLoop) ||
         value.is(Kind::kJoiner) || value.is(Kind::kUndefined);
}

template <bool (*wanted)(char32_t), bool (*other)(char32_t)>
Value IsAllOfCase(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (!Bind(runtime, "test", arguments, {}, 0, nullptr)) return Value::Failed();
  const Value text = Str(runtime, self);
  if (text.failed()) return text;
  bool any = false;
  for (size_t at = 0; at < text.text().size();) {
    const char32_t c = NextCodePoint(text.text(), &at);
    if (other(c) || IsTitle(c)) return Value::Bool(false);
    any |= wanted(c);
  }
  return Value::Bool(any);
}

Value IsRemainder(Runtime& runtime, const Value& self, int64_t divisor, int64_t wanted) {
  // A text would be formatted by %, and its result is no number.
  const Value remainder = Arithmetic(runtime, Operator::kModulo, self, Value::Int(divisor));
  return remainder.failed() ? remainder : Value::Bool(Equal(remainder, Value::Int(wanted)));
}

Value IsOdd(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (!Bind(runtime, "test_odd", arguments, {}, 0, nullptr)) return Value::Failed();
  return IsRemainder(runtime, self, 2, 1);
}

Value IsEven(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (!Bind(runtime, "test_even", arguments, {}, 0, nullptr)) return Value::Failed();
  return IsRemainder(runtime, self, 2, 0);
}

Value IsDivisibleBy(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value divisor;
  if (!Bind(runtime, "test_divisibleby", arguments, {"num"}, 1, &divisor)) return Value::Failed();
  const Value remainder = Arithmetic(runtime, Operator::kModulo, self, divisor);
  return remainder.failed() ? remainder : Value::Bool(Equal(remainder, Value::Int(0)));
}

// Python's `is`: the same object; small values are always the same.
Value IsSameAs(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value other;
  if (!Bind(runtime, "test_sameas", arguments, {"other"}, 1, &other)) return Value::Failed();
  if (self.kind() != other.kind()) return Value::Bool(false);
  if (self.is_number() || self.is(Kind::kNone) || self.is_string()) {
    return Value::Bool(Equal(self, other));
  }
  return Value::Bool(self.object() == other.object());
}

Value IsIterableTest(Runtime& runtime, const Value& self, Arguments& arguments) {
  return Asked<IsIterable>(runtime, self, arguments);
}

// Before a table of names is asked.
bool HashableName(Runtime& runtime, const Value& name) {
  if (Hashable(name)) return true;
  runtime.Fail("TypeError", absl::StrCat("unhashable type: '", std::string(TypeName(name)), "'"));
  return false;
}

Value IsFilter(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (!Bind(runtime, "test_filter", arguments, {}, 0, nullptr)) return Value::Failed();
  if (!HashableName(runtime, self)) return Value::Failed();
  return Value::Bool(self.is_string() && FindFilter(self.text()) != nullptr);
}

Value IsTest(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (!Bind(runtime, "test_test", arguments, {}, 0, nullptr)) return Value::Failed();
  if (!HashableName(runtime, self)) return Value::Failed();
  return Value::Bool(self.is_string() && FindTest(self.text()) != nullptr);
}

template <Operator op>
Value Compares(Runtime& runtime, const Value& self, Arguments& arguments) {
  Value other;
  if (!Bind(runtime, "test", arguments, {"other"}, 1, &other)) return Value::Failed();
  return Compare(runtime, op, self, other);
}

constexpr Builtin kValueTests[] = {
    {"defined", &Asked<IsDefined>},
    {"undefined", &Asked<IsUndefined>},
    {"none", &Asked<IsNone>},
    {"boolean", &Asked<IsBoolean>},
    {"true", &Asked<IsTrue>},
    {"false", &Asked<IsFalse>},
    {"integer", &Asked<IsInteger>},
    {"float", &Asked<IsFloat>},
    {"number", &Asked<IsNumber>},
    {"string", &Asked<IsString>},
    {"mapping", &Asked<IsMapping>},
    {"sequence", &Asked<IsSequence>},
    {"iterable", &IsIterableTest},
    {"callable", &Asked<IsCallable>},
    {"escaped", &Asked<IsEscaped>},
    {"lower", &IsAllOfCase<IsLower, IsUpper>},
    {"upper", &IsAllOfCase<IsUpper, IsLower>},
    {"odd", &IsOdd},
    {"even", &IsEven},
    {"divisibleby", &IsDivisibleBy},
    {"sameas", &IsSameAs},
    {"filter", &IsFilter},
    {"test", &IsTest},
    {"in", &Compares<Operator::kIn>},
    {"eq", &Compares<Operator::kEqual>},
    {"equalto", &Compares<Operator::kEqual>},
    {"==", &Compares<Operator::kEqual>},
    {"ne", &Compares<Operator::kNotEqual>},
    {"!=", &Compares<Operator::kNotEqual>},
    {"lt", &Compares<Operator::kLess>},
    {"lessthan", &Compares<Operator::kLess>},
    {"<", &Compares<Operator::kLess>},
    {"le", &Compares<Operator::kLessEqual>},
    {"<=", &Compares<Operator::kLessEqual>},
    {"gt", &Compares<Operator::kGreater>},
    {"greaterthan", &Compares<Operator::kGreater>},
    {">", &Compares<Operator::kGreater>},
    {"ge", &Compares<Operator::kGreaterEqual>},
    {">=", &Compares<Operator::kGreaterEqual>},
};

}  // namespace

std::span<const Builtin> ValueTests() { return kValueTests; }

}  // namespace coxswain::data::jinja
