// Python's operators over values.
#ifndef COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_OPERATORS_H_
#define COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_OPERATORS_H_

#include "controller/text/jinja/values/runtime.h"
#include "controller/text/jinja/values/value.h"

namespace coxswain::data::jinja {

enum class Operator : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

bool Truth(const Value& value);

// kAdd to kPower.
Value Arithmetic(Runtime& runtime, Operator op, const Value& a, const Value& b);
Value Negate(Runtime& runtime, const Value& value);
Value Positive(Runtime& runtime, const Value& value);

// kEqual to kNotIn; the result is a bool.
Value Compare(Runtime& runtime, Operator op, const Value& a, const Value& b);
// a < b, for sorting. False after a failure too.
bool Less(Runtime& runtime, const Value& a, const Value& b);

// Sorts `items` stably by `keys`, one per item. False after a failure.
bool SortByKeys(Runtime& runtime, const std::vector<Value>& keys, bool reverse,
                std::vector<Value>* items);

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_OPERATORS_H_
