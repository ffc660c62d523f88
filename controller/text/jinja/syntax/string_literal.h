// Escapes of string literals.
#ifndef COXSWAIN_CONTROLLER_TEXT_JINJA_SYNTAX_STRING_LITERAL_H_
#define COXSWAIN_CONTROLLER_TEXT_JINJA_SYNTAX_STRING_LITERAL_H_

#include <string>
#include <string_view>

namespace coxswain::data::jinja {

// Decodes the text between the quotes by Python's unicode-escape. False with *error: an escape is
// incomplete, is a name (\N{...}), or is half of a surrogate pair.
bool Unescape(std::string_view literal, std::string* text, std::string* error);

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_TEXT_JINJA_SYNTAX_STRING_LITERAL_H_
