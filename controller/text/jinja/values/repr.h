// Python's str() and repr().
#ifndef COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_REPR_H_
#define COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_REPR_H_

#include <string>
#include <string_view>

#include "controller/text/jinja/values/runtime.h"

namespace coxswain::data::jinja {

// Append the text; false after a failure. Macros, functions and iterators print their type, without
// the address that Python adds.
bool AppendStr(Runtime& runtime, const Value& value, std::string* out);
bool AppendRepr(Runtime& runtime, const Value& value, std::string* out);

// str() as a value; a string is itself.
Value Str(Runtime& runtime, const Value& value);
// repr() for a message, cut to a maximum length.
std::string ReprForMessage(const Value& value);

void AppendReprOfText(std::string_view text, std::string* out);
// The shortest decimal that reads back as the number, as Python writes it: 1.0, 1e-05, 1e+16, inf.
void AppendFloat(double value, std::string* out);
// Appends text as markupsafe.escape does: & < > ' " become entities.
void AppendEscaped(std::string_view text, std::string* out);

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_REPR_H_
