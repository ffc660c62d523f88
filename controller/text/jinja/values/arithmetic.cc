#include <cmath>

#include "absl/strings/str_cat.h"
#include "controller/text/jinja/values/operators.h"
#include "controller/text/jinja/values/repr.h"

namespace coxswain::data::jinja {
namespace {

constexpr const char* kSigns[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

Value Unsupported(Runtime& runtime, Operator op, const Value& a, const Value& b) {
  if (a.is(Kind::kUndefined)) return FailUndefined(runtime, a);
  const bool markup_asks_first = op == Operator::kMultiply && a.markup();
  if (b.is(Kind::kUndefined) && !markup_asks_first) return FailUndefined(runtime, b);
  const std::string left(TypeName(a));
  const std::string right(TypeName(b));
  if (op == Operator::kAdd && (a.is_string() || a.is_sequence())) {
    return runtime.Fail("TypeError", absl::StrCat("can only concatenate ", left, " (not \"", right,
                                                  "\") to ", left));
  }
  return runtime.Fail("TypeError",
                      absl::StrCat("unsupported operand type(s) for ", kSigns[static_cast<int>(op)],
                                   ": '", left, "' and '", right, "'"));
}

Value TooLarge(Runtime& runtime) {
  return runtime.Fail("OverflowError", "the result exceeds 64 bits, which is not supported");
}

Value DivideIntegers(Runtime& runtime, Operator op, int64_t a, int64_t b) {
  if (b == 0) {
    return runtime.Fail("ZeroDivisionError", op == Operator::kDivide
                                                 ? "division by zero"
                                                 : "integer division or modulo by zero");
  }
  if (op == Operator::kDivide) {
    // Rounded once: 64 bits of fraction hold both integers.
    return Value::Float(
        static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b)));
  }
  if (b == -1) {  // the one quotient that overflows, INT64_MIN / -1, traps
    if (op == Operator::kModulo) return Value::Int(0);
    return a == INT64_MIN ? TooLarge(runtime) : Value::Int(-a);
  }
  const int64_t remainder = a % b;
  const bool rounds = remainder != 0 && (remainder < 0) != (b < 0);
  if (op == Operator::kModulo) return Value::Int(rounds ? remainder + b : remainder);
  return Value::Int(rounds ? a / b - 1 : a / b);
}

Value PowerOfIntegers(Runtime& runtime, int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) {
      return runtime.Fail("ZeroDivisionError", "0.0 cannot be raised to a negative power");
    }
    return Value::Float(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  while (true) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) {
      return TooLarge(runtime);
    }
    exponent >>= 1;
    if (exponent == 0) return Value::Int(result);
    // A square that overflows is a factor of the result, unless the base is -1, 0 or 1.
    if (__builtin_mul_overflow(base, base, &base)) return TooLarge(runtime);
  }
}

Value OnIntegers(Runtime& runtime, Operator op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflows = false;
  switch (op) {
    case Operator::kAdd:
      overflows = __builtin_add_overflow(a, b, &result);
      break;
    case Operator::kSubtract:
      overflows = __builtin_sub_overflow(a, b, &result);
      break;
    case Operator::kMultiply:
      overflows = __builtin_mul_overflow(a, b, &result);
      break;
    case Operator::kPower:
      return PowerOfIntegers(runtime, a, b);
    default:
      return DivideIntegers(runtime, op, a, b);
  }
  return overflows ? TooLarge(runtime) : Value::Int(result);
}

double FloatModulo(double a, double b) {
  const double remainder = std::fmod(a, b);
  if (remainder == 0) return std::copysign(0.0, b);
  return (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

// Source: CPython, Objects/floatobject.c: the quotient is rounded from what the remainder leaves.
double FloatFloorDivide(double a, double b) {
  const double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0 && (remainder < 0) != (b < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

Value PowerOfFloats(Runtime& runtime, double a, double b) {
  if (a == 0 && b < 0) {
    return runtime.Fail("ZeroDivisionError", "0.0 cannot be raised to a negative power");
  }
  if (a < 0 && std::isfinite(b) && b != std::floor(b)) {
    return runtime.Fail("TypeError", "complex numbers are not supported");
  }
  const double result = std::pow(a, b);
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) {
    return runtime.Fail("OverflowError", "(34, 'Numerical result out of range')");
  }
  return Value::Float(result);
}

Value OnFloats(Runtime& runtime, Operator op, double a, double b) {
  switch (op) {
    case Operator::kAdd:
      return Value::Float(a + b);
    case Operator::kSubtract:
      return Value::Float(a - b);
    case Operator::kMultiply:
      return Value::Float(a * b);
    case Operator::kPower:
      return PowerOfFloats(runtime, a, b);
    default:
      break;
  }
  if (b == 0) {
    return runtime.Fail("ZeroDivisionError", op == Operator::kDivide ? "float division by zero"
                                             : op == Operator::kModulo
                                                 ? "float modulo"
                                                 : "float floor division by zero");
  }
  if (op == Operator::kDivide) return Value::Float(a / b);
  if (op == Operator::kModulo) return Value::Float(FloatModulo(a, b));
  return Value::Float(FloatFloorDivide(a, b));
}

Value Repeat(Runtime& runtime, const Value& sequence, int64_t count) {
  if (count < 0) count = 0;
  int64_t total = 0;
  const int64_t size = sequence.is_string() ? static_cast<int64_t>(sequence.text().size())
                                            : static_cast<int64_t>(sequence.list().items.size());
  const bool overflows = __builtin_mul_overflow(size, count, &total);
  // Asked before anything is made.
  if (overflows || total > runtime.limits().value_bytes) {
    runtime.Exceeded("value_bytes", runtime.limits().value_bytes);
    return Value::Failed();
  }
  if (sequence.is_string()) {
    if (!runtime.Step(total / 16)) return Value::Failed();
    std::string text;
    text.reserve(static_cast<size_t>(total));
    for (int64_t i = 0; i < count && size > 0; ++i) text.append(sequence.text());
    return runtime.Text(std::move(text), sequence.markup());
  }
  if (!runtime.Step(total) || !runtime.Allocate(total * 16)) return Value::Failed();
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(total));
  for (int64_t i = 0; i < count && size > 0; ++i) {
    items.insert(items.end(), sequence.list().items.begin(), sequence.list().items.end());
  }
  return sequence.is(Kind::kList) ? runtime.NewList(std::move(items))
                                  : runtime.NewTuple(std::move(items));
}

Value AddStrings(Runtime& runtime, const Value& a, const Value& b) {
  const bool markup = a.markup() || b.markup();
  std::string text;
  text.reserve(a.text().size() + b.text().size());
  for (const Value* part : {&a, &b}) {
    if (markup && !part->markup()) {
      AppendEscaped(part->text(), &text);
    } else {
      text.append(part->text());
    }
  }
  return runtime.Text(std::move(text), markup);
}

Value AddSequences(Runtime& runtime, const Value& a, const Value& b) {
  std::vector<Value> items;
  items.reserve(a.list().items.size() + b.list().items.size());
  items.insert(items.end(), a.list().items.begin(), a.list().items.end());
  items.insert(items.end(), b.list().items.begin(), b.list().items.end());
  return a.is(Kind::kList) ? runtime.NewList(std::move(items)) : runtime.NewTuple(std::move(items));
}

}  // namespace

Value Arithmetic(Runtime& runtime, Operator op, const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer()) return OnIntegers(runtime, op, a.integer(), b.integer());
  if (a.is_number() && b.is_number()) return OnFloats(runtime, op, a.number(), b.number());
  if (op == Operator::kAdd) {
    if (a.is_string() && b.is_string()) return AddStrings(runtime, a, b);
    if (a.is_sequence() && a.kind() == b.kind()) return AddSequences(runtime, a, b);
  }
  if (op == Operator::kMultiply) {
    if ((a.is_string() || a.is_sequence()) && b.is_integer()) {
      return Repeat(runtime, a, b.integer());
    }
    if ((b.is_string() || b.is_sequence()) && a.is_integer()) {
      return Repeat(runtime, b, a.integer());
    }
  }
  if (op == Operator::kModulo && a.is_string()) return FormatPercent(runtime, a, b);
  if (a.is(Kind::kBigInt) || b.is(Kind::kBigInt)) return TooLarge(runtime);
  return Unsupported(runtime, op, a, b);
}

Value Negate(Runtime& runtime, const Value& value) {
  if (value.is(Kind::kFloat)) return Value::Float(-value.number());
  if (value.is_integer()) {
    return value.integer() == INT64_MIN ? TooLarge(runtime) : Value::Int(-value.integer());
  }
  if (value.is(Kind::kUndefined)) return FailUndefined(runtime, value);
  return runtime.Fail("TypeError", absl::StrCat("bad operand type for unary -: '",
                                                std::string(TypeName(value)), "'"));
}

Value Positive(Runtime& runtime, const Value& value) {
  if (value.is(Kind::kFloat) || value.is(Kind::kBigInt)) return value;
  if (value.is_integer()) return Value::Int(value.integer());
  if (value.is(Kind::kUndefined)) return FailUndefined(runtime, value);
  return runtime.Fail("TypeError", absl::StrCat("bad operand type for unary +: '",
                                                std::string(TypeName(value)), "'"));
}

}  // namespace coxswain::data::jinja
