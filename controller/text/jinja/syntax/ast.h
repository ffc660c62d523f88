// A parsed template: statements and expressions, with names bound to places.
#ifndef COXSWAIN_CONTROLLER_TEXT_JINJA_SYNTAX_AST_H_
#define COXSWAIN_CONTROLLER_TEXT_JINJA_SYNTAX_AST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "controller/text/jinja/values/operators.h"
#include "controller/text/jinja/values/runtime.h"
#include "controller/text/jinja/values/value.h"

namespace coxswain::data::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

// The place of a name's value.
struct Place {
  enum class In : uint8_t { kGlobals, kFrame };
  In in = In::kGlobals;
  int hops = 0;   // kFrame: number of enclosing functions to go outwards
  int index = 0;  // slot in that function, or index in Program::globals
};

// The arguments of a call, filter or test.
struct CallSite {
  std::vector<ExprPtr> arguments;
  std::vector<std::pair<Value, ExprPtr>> named;
  ExprPtr star;
  ExprPtr double_star;
};

// The methods with an attribute's name, looked up once.
struct AttributeMethods {
  const Builtin* of_string = nullptr;
  const Builtin* of_list = nullptr;
  const Builtin* of_tuple = nullptr;
  const Builtin* of_dict = nullptr;
};

enum class ExprKind : uint8_t {
  kConstant,            // value
  kName,                // place; value: the name
  kList,                // children
  kTuple,               // children
  kDict,                // children: key, value, key, value
  kAttribute,           // children[0] . value; methods
  kItem,                // children[0] [children[1]]
  kSlice,               // children[0] [children[1] : children[2] : children[3]], each may be null
  kCall,                // children[0] (call)
  kFilter,              // children[0] | builtin (call); null child: the content of a block
  kTest,                // children[0] is builtin (call)
  kNegate,              // children[0]
  kPositive,            // children[0]
  kNot,                 // children[0]
  kBinary,              // children[0] op children[1]
  kConcat,              // children, with ~
  kCompare,             // children[0] operators[0] children[1] operators[1] children[2] ...
  kAnd,                 // children
  kOr,                  // children
  kCondition,           // children[0] if children[1] else children[2], which may be null
  kNamespaceAttribute,  // only as a target: children[0], a name, and value
};

struct Expr {
  Expr(ExprKind what, int at) : kind(what), line(at) {}
  ExprKind kind;
  Operator op = Operator::kAdd;
  int line;
  int depth = 1;  // of the tree below
  Place place;
  Value value;
  std::vector<ExprPtr> children;
  std::vector<Operator> operators;
  std::unique_ptr<CallSite> call;
  const Builtin* builtin = nullptr;  // null: unknown, an error only when it is reached
  AttributeMethods methods;
};

struct Stmt;
using Body = std::vector<std::unique_ptr<Stmt>>;

// The slots to set when a scope is entered.
struct ScopeEntry {
  struct Load {
    int slot;
    bool is_set;  // false: the slot is emptied
    Place from;
  };
  std::vector<Load> loads;
};

// A part of a template that has its own slots: the root, a macro, the body of a call block or of a
// recursive loop.
struct FunctionInfo {
  int slots = 0;
};

struct ForLoop {
  ExprPtr target;
  ExprPtr iterable;
  ExprPtr condition;  // null: none
  bool recursive = false;
  int loop_slot = 0;
  ScopeEntry condition_scope;
  ExprPtr condition_target;  // as target, in the condition's own scope
  ScopeEntry else_scope;
  FunctionInfo function;  // of a recursive loop
};

struct MacroInfo {
  std::string name;  // empty: the body of a call block
  int line = 0;
  std::vector<ExprPtr> parameters;  // names
  std::vector<ExprPtr> defaults;    // of the last parameters
  bool uses_caller = false;
  bool uses_kwargs = false;
  bool uses_varargs = false;
  bool explicit_caller = false;  // caller is a parameter
  int caller_slot = -1;
  int kwargs_slot = -1;
  int varargs_slot = -1;
  ScopeEntry scope;
  FunctionInfo function;
  Body body;
};

enum class StmtKind : uint8_t {
  kText,         // text
  kPrint,        // exprs
  kIf,           // branches, otherwise
  kFor,          // loop, scope, body, otherwise
  kSet,          // exprs[0] = exprs[1]
  kSetBlock,     // exprs[0] = body, through the filter exprs[1], which may be null; scope
  kWith,         // exprs: target, value, target, value; scope, body
  kMacro,        // exprs[0] = macro
  kCallBlock,    // the call exprs[0] with `macro` as its caller
  kFilterBlock,  // the filter exprs[0] of body; scope
  kGeneration,   // body; scope
  kBreak,
  kContinue,
};

struct Stmt {
  Stmt(StmtKind what, int at) : kind(what), line(at) {}
  StmtKind kind;
  int line;
  std::string text;
  std::vector<ExprPtr> exprs;
  std::vector<std::pair<ExprPtr, Body>> branches;
  Body body;
  Body otherwise;
  ScopeEntry scope;
  std::unique_ptr<ForLoop> loop;
  std::unique_ptr<MacroInfo> macro;
};

// A parsed template.
struct Program {
  // Uncounted. Expressions refer to them, so they are destroyed last.
  std::vector<std::unique_ptr<Object>> constants;
  Body body;
  ScopeEntry scope;
  FunctionInfo function;
  std::vector<Value> globals;  // names, by the index of a Place
  bool marks_generation = false;
};

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_TEXT_JINJA_SYNTAX_AST_H_
