// Evaluates owner.name, owner[key] and owner[start:stop:step] as jinja2's sandbox does.
#ifndef COXSWAIN_CONTROLLER_TEXT_JINJA_FUNCTIONS_SUBSCRIPT_H_
#define COXSWAIN_CONTROLLER_TEXT_JINJA_FUNCTIONS_SUBSCRIPT_H_

#include "controller/text/jinja/syntax/ast.h"
#include "controller/text/jinja/values/runtime.h"

namespace coxswain::data::jinja {

// The method in `methods` for the type of `owner`; nullptr: none.
const Builtin* MethodOf(const Value& owner, const AttributeMethods& methods);

// owner.name: a method or attribute first, then an item. Undefined without either.
Value GetAttribute(Runtime& runtime, const Value& owner, const Value& name,
                   const AttributeMethods& methods);
// owner[key]: an item first, then a method or attribute.
Value GetItem(Runtime& runtime, const Value& owner, const Value& key);
// A missing bound was left out in the template. TypeError: the owner has no slices.
Value GetSlice(Runtime& runtime, const Value& owner, const Value& start, const Value& stop,
               const Value& step);

// An undefined value. Its use is a SecurityError.
Value UnsafeAttribute(const Value& owner, std::string_view name);

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_TEXT_JINJA_FUNCTIONS_SUBSCRIPT_H_
