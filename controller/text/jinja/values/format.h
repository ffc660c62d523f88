// Python's two ways of formatting text.
#ifndef COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_FORMAT_H_
#define COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_FORMAT_H_

#include <string>
#include <string_view>

#include "controller/text/jinja/values/runtime.h"

namespace coxswain::data::jinja {

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

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_FORMAT_H_
