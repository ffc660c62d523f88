// Names to places, by jinja2's rules of scope.
#ifndef COXSWAIN_CONTROLLER_DATA_JINJA_SCOPE_H_
#define COXSWAIN_CONTROLLER_DATA_JINJA_SCOPE_H_

#include "controller/data/jinja/ast.h"
#include "controller/data/jinja/lexer.h"

namespace coxswain::data::jinja {

// Bodies of for, with, macro, call, filter, generation and block set have a scope of their own:
// what is set there is gone after it, and starts as what the name is outside. Bodies of if have
// none. False with *error where `loop` is assigned to in a for statement.
//
// Source: jinja2 3.1, idtracking.py and compiler.py.
bool BindNames(Program* program, SyntaxError* error);

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_DATA_JINJA_SCOPE_H_
