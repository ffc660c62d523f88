// Parses template text into a program.
#ifndef COXSWAIN_CONTROLLER_TEXT_JINJA_SYNTAX_PARSER_H_
#define COXSWAIN_CONTROLLER_TEXT_JINJA_SYNTAX_PARSER_H_

#include <memory>
#include <string_view>

#include "controller/text/jinja/syntax/ast.h"
#include "controller/text/jinja/syntax/lexer.h"

namespace coxswain::data::jinja {

// The names of the result are bound (scope.h). nullptr with *error: the text is no template, or it
// uses an unsupported statement (include, import, from, extends, block, autoescape).
std::unique_ptr<Program> ParseTemplate(std::string_view source, SyntaxError* error);

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_TEXT_JINJA_SYNTAX_PARSER_H_
