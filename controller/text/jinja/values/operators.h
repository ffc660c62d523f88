// What Python does with values: operators, formats, JSON.
#ifndef COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_OPERATORS_H_
#define COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_OPERATORS_H_

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/statusor.h"
#include "controller/text/jinja/values/runtime.h"
#include "controller/text/jinja/values/value.h"

namespace coxswain::data::jinja {

// Python's operators over values.
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

// Python's two ways of formatting text.

// text % values. `values`: a tuple, a dict for %(name)s, or one value.
Value FormatPercent(Runtime& runtime, const Value& text, const Value& values);

// text.format(...): fields by position, by name, with .attributes, [subscripts], !r, !s and a
// format specification.
Value FormatBraces(Runtime& runtime, const Value& text, Arguments& arguments);

// The format specification of a value, shared by both ways.
struct Layout {
  std::string fill = " ";
  char align = '\0';  // < > ^ =, or none given
  char sign = '-';    // + - or blank
  bool alternate = false;
  bool zero = false;
  int64_t width = 0;
  char grouping = '\0';  // , or _
  int64_t precision = -1;
  char type = '\0';
};

// Largest width and precision that is formatted.
inline constexpr int64_t kMaxLayout = 100'000;

// Formats a number by its type (d b o x X c e E f F g G % n, or none). The sign goes to `sign`, the
// rest to `digits`. False after a failure: the type is not for numbers, or not for this kind of
// number.
bool FormatNumber(Runtime& runtime, const Value& value, const Layout& layout, std::string* sign,
                  std::string* digits);
// Fills up to the width; a number's sign may stay in front of the fill.
std::string LayOut(const Layout& layout, char default_align, std::string_view sign,
                   std::string_view text);

// Values from JSON, and json.dumps.

// Parses as Python's json.loads: keeps the order, takes the last of equal keys, accepts integers of
// any size. Errors: not JSON, with the byte; nested deeper than kMaxValueDepth.
absl::StatusOr<Value> ParseJson(std::string_view text);

// Converts parsed JSON, in which integers beyond 64 bits are floats. Error: nested too deep.
absl::StatusOr<Value> FromJson(const nlohmann::ordered_json& json);

// The filter tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False).
Value ToJson(Runtime& runtime, const Value& self, Arguments& arguments);

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_OPERATORS_H_
