// The tables of builtins that a template finds by name.
#ifndef COXSWAIN_CONTROLLER_TEXT_JINJA_SYNTAX_BUILTINS_H_
#define COXSWAIN_CONTROLLER_TEXT_JINJA_SYNTAX_BUILTINS_H_

#include <span>
#include <string_view>

#include "controller/text/jinja/syntax/ast.h"
#include "controller/text/jinja/values/runtime.h"

namespace coxswain::data::jinja {

// nullptr: there is no builtin of that name.
const Builtin* FindFilter(std::string_view name);
const Builtin* FindTest(std::string_view name);
const Builtin* FindGlobal(std::string_view name);
AttributeMethods FindMethods(std::string_view name);

// The reason why a filter of jinja2 is not supported. Empty: jinja2 has no filter of that name
// either.
std::string_view WhyNoFilter(std::string_view name);

// One table per file.
std::span<const Builtin> TextFilters();
std::span<const Builtin> SequenceFilters();
std::span<const Builtin> SelectionFilters();
std::span<const Builtin> NumberFilters();
std::span<const Builtin> ValueTests();
std::span<const Builtin> Globals();
std::span<const Builtin> StringMethods();
std::span<const Builtin> StringTestMethods();
std::span<const Builtin> ListMethods();
std::span<const Builtin> TupleMethods();
std::span<const Builtin> DictMethods();

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_TEXT_JINJA_SYNTAX_BUILTINS_H_
