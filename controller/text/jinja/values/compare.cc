#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "controller/text/jinja/values/cursor.h"
#include "controller/text/jinja/values/operators.h"

namespace coxswain::data::jinja {
namespace {

constexpr const char* kComparisons[] = {"==", "!=", "<", "<=", ">", ">="};

const char* Sign(Operator op) {
  return kComparisons[static_cast<int>(op) - static_cast<int>(Operator::kEqual)];
}

// Before two values are compared: the cost of the walk.
bool StepOver(Runtime& runtime, const Value& a, const Value& b) {
  return runtime.Step(std::min(a.weight(), b.weight()));
}

bool Holds(Operator op, int order) {
  if (order == 2) return false;
  switch (op) {
    case Operator::kLess:
      return order < 0;
    case Operator::kLessEqual:
      return order <= 0;
    case Operator::kGreater:
      return order > 0;
    default:
      return order >= 0;
  }
}

Value NoOrder(Runtime& runtime, Operator op, const Value& a, const Value& b) {
  if (a.is(Kind::kUndefined)) return FailUndefined(runtime, a);
  if (b.is(Kind::kUndefined)) return FailUndefined(runtime, b);
  return runtime.Fail(
      "TypeError",
      absl::StrCat("'", Sign(op), "' not supported between instances of '",
                   std::string(TypeName(a)), "' and '", std::string(TypeName(b)), "'"));
}

Value Ordered(Runtime& runtime, Operator op, const Value& a, const Value& b);

// By the first items that differ, else by length.
Value OrderedSequences(Runtime& runtime, Operator op, const Value& a, const Value& b) {
  const std::vector<Value>& x = a.list().items;
  const std::vector<Value>& y = b.list().items;
  const size_t common = std::min(x.size(), y.size());
  for (size_t i = 0; i < common; ++i) {
    if (!StepOver(runtime, x[i], y[i])) return Value::Failed();
    if (!Equal(x[i], y[i])) return Ordered(runtime, op, x[i], y[i]);
  }
  const int order = x.size() < y.size() ? -1 : x.size() > y.size() ? 1 : 0;
  return Value::Bool(Holds(op, order));
}

Value Ordered(Runtime& runtime, Operator op, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return Value::Bool(Holds(op, CompareNumbers(a, b)));
  if (a.is_string() && b.is_string()) return Value::Bool(Holds(op, a.text().compare(b.text())));
  if (a.is_sequence() && a.kind() == b.kind()) return OrderedSequences(runtime, op, a, b);
  return NoOrder(runtime, op, a, b);
}

Value In(Runtime& runtime, const Value& item, const Value& container) {
  switch (container.kind()) {
    case Kind::kString:
      if (!item.is_string()) {
        if (item.is(Kind::kUndefined)) {
          return runtime.Fail("TypeError",
                              "'in <string>' requires string as left operand, not Undefined");
        }
        return runtime.Fail("TypeError",
                            absl::StrCat("'in <string>' requires string as left operand, not ",
                                         std::string(TypeName(item))));
      }
      if (!runtime.Step(static_cast<int64_t>(container.text().size()) / 16)) {
        return Value::Failed();
      }
      return Value::Bool(container.text().find(item.text()) != std::string_view::npos);
    case Kind::kDict:
      if (!runtime.Step(item.weight())) return Value::Failed();
      if (!Hashable(item)) {
        return runtime.Fail("TypeError",
                            absl::StrCat("unhashable type: '", std::string(TypeName(item)), "'"));
      }
      return Value::Bool(container.dict().Find(item) != nullptr);
    case Kind::kRange: {
      if (!item.is_number()) return Value::Bool(false);
      const auto& range = *static_cast<const Range*>(container.object());
      const double number = item.number();
      if (std::abs(number) > 1e15 || number != std::floor(number)) return Value::Bool(false);
      const int64_t offset = static_cast<int64_t>(number) - range.start;
      return Value::Bool(offset % range.step == 0 && offset / range.step >= 0 &&
                         offset / range.step < range.Length());
    }
    default:
      break;
  }
  Cursor cursor;
  if (!cursor.Open(runtime, container, "argument of type '", "' is not iterable")) {
    return Value::Failed();
  }
  Value candidate;
  while (cursor.Next(runtime, &candidate)) {
    if (!StepOver(runtime, item, candidate)) return Value::Failed();
    if (Equal(item, candidate)) return Value::Bool(true);
  }
  return runtime.failed() ? Value::Failed() : Value::Bool(false);
}

}  // namespace

bool Truth(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kFailed:
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.integer() != 0;
    case Kind::kFloat:
      return value.number() != 0;
    case Kind::kString:
      return !value.text().empty();
    case Kind::kList:
    case Kind::kTuple:
      return !value.list().items.empty();
    case Kind::kDict:
      return value.dict().size() > 0;
    case Kind::kRange:
      return static_cast<const Range*>(value.object())->Length() > 0;
    case Kind::kView:
      return static_cast<const View*>(value.object())->size() > 0;
    default:
      return true;
  }
}

Value Compare(Runtime& runtime, Operator op, const Value& a, const Value& b) {
  switch (op) {
    case Operator::kEqual:
    case Operator::kNotEqual:
      if (!StepOver(runtime, a, b)) return Value::Failed();
      return Value::Bool(Equal(a, b) == (op == Operator::kEqual));
    case Operator::kIn:
      return In(runtime, a, b);
    case Operator::kNotIn: {
      const Value in = In(runtime, a, b);
      return in.failed() ? in : Value::Bool(!Truth(in));
    }
    default:
      return Ordered(runtime, op, a, b);
  }
}

bool Less(Runtime& runtime, const Value& a, const Value& b) {
  if (!StepOver(runtime, a, b)) return false;
  return Truth(Ordered(runtime, Operator::kLess, a, b));
}

bool SortByKeys(Runtime& runtime, const std::vector<Value>& keys, bool reverse,
                std::vector<Value>* items) {
  std::vector<size_t> order(items->size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Merge sort is safe under an order that keys without one break, unlike quick sort.
  std::vector<size_t> merged(order.size());
  for (size_t width = 1; width < order.size(); width *= 2) {
    for (size_t begin = 0; begin < order.size(); begin += 2 * width) {
      const size_t middle = std::min(begin + width, order.size());
      const size_t end = std::min(begin + 2 * width, order.size());
      size_t left = begin;
      size_t right = middle;
      for (size_t at = begin; at < end; ++at) {
        const bool takes_right =
            left == middle ||
            (right < end && (reverse ? Less(runtime, keys[order[left]], keys[order[right]])
                                     : Less(runtime, keys[order[right]], keys[order[left]])));
        if (runtime.failed()) return false;
        merged[at] = takes_right ? order[right++] : order[left++];
      }
    }
    order.swap(merged);
  }
  std::vector<Value> sorted;
  sorted.reserve(order.size());
  for (const size_t i : order) sorted.push_back((*items)[i]);
  items->swap(sorted);
  return true;
}

}  // namespace coxswain::data::jinja
