// Functions that filters and methods of strings share.
#ifndef COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_STRING_FUNCTIONS_H_
#define COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_STRING_FUNCTIONS_H_

#include <string_view>
#include <vector>

#include "controller/text/jinja/values/runtime.h"

namespace coxswain::data::jinja {

// Strips white space, or the characters of `chars` if that is a string (else missing or None).
Value Strip(Runtime& runtime, const Value& text, const Value& chars, bool left, bool right);

// str.replace; count < 0: all.
Value Replace(Runtime& runtime, std::string_view text, std::string_view from, std::string_view to,
              int64_t count);

enum class Align { kLeft, kCenter, kRight };
// Pads to `width` characters with `fill`: a string of one character; missing: a blank.
Value Pad(Runtime& runtime, const Value& text, const Value& width, const Value& fill, Align align);

// str.splitlines.
std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends);
// str.split() and str.rsplit() at white space, at most `most` times; most < 0: everywhere.
std::vector<std::string_view> SplitSpaces(std::string_view text, int64_t most);
std::vector<std::string_view> SplitSpacesFromRight(std::string_view text, int64_t most);

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_STRING_FUNCTIONS_H_
