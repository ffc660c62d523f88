// Binds names to places, by jinja2's scope rules.
#ifndef COXSWAIN_CONTROLLER_TEXT_JINJA_SYNTAX_SCOPE_H_
#define COXSWAIN_CONTROLLER_TEXT_JINJA_SYNTAX_SCOPE_H_

#include "controller/text/jinja/syntax/ast.h"
#include "controller/text/jinja/syntax/lexer.h"

namespace coxswain::data::jinja {

// Bodies of for, with, macro, call, filter, generation and block set have their own scope. A name
// starts there with its outer value. A value that is set there is lost after the body. Bodies of if
// have no scope. False with *error when a for statement assigns to `loop`.
//
// Source: jinja2 3.1, idtracking.py and compiler.py.
bool BindNames(Program* program, SyntaxError* error);

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_TEXT_JINJA_SYNTAX_SCOPE_H_
