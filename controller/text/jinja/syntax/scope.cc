#include "controller/text/jinja/syntax/scope.h"

#include <string_view>

#include "absl/container/flat_hash_map.h"

namespace coxswain::data::jinja {
namespace {

enum class LoadAs : uint8_t { kParameter, kNothing, kGlobal, kOuter };

struct Symbol {
  int slot = -1;  // -1: only read here, and found in no scope: a global
  LoadAs load = LoadAs::kGlobal;
  Place outer;
};

struct Scope {
  Scope* parent;
  FunctionInfo* function;
  int level;  // functions around
  absl::flat_hash_map<std::string, Symbol> symbols = {};
};

class NameBinder {
 public:
  NameBinder(Program* program, SyntaxError* error) : program_(program), error_(error) {}

  bool Run() {
    Scope root{nullptr, &program_->function, 0};
    return BindBody(&program_->body, &root, &program_->scope);
  }

 private:
  int Global(std::string_view name) {
    const auto [found, inserted] =
        global_index_.try_emplace(std::string(name), static_cast<int>(program_->globals.size()));
    if (inserted) program_->globals.push_back(FindConstant(name));
    return found->second;
  }

  // A name as a constant of the program.
  Value FindConstant(std::string_view name) {
    auto object = std::make_unique<String>(std::string(name), false);
    object->references = Object::kUncounted;
    object->Length();
    program_->constants.push_back(std::move(object));
    return Value(Kind::kString, program_->constants.back().get());
  }

  // The place of a name, seen from `scope`; false: no scope knows it.
  bool Find(const Scope* scope, std::string_view name, Place* place) {
    for (const Scope* at = scope; at != nullptr; at = at->parent) {
      const auto found = at->symbols.find(std::string(name));
      if (found == at->symbols.end()) continue;
      *place = found->second.slot < 0
                   ? Place{Place::In::kGlobals, 0, Global(name)}
                   : Place{Place::In::kFrame, scope->level - at->level, found->second.slot};
      return true;
    }
    return false;
  }

  int Declare(Scope* scope, std::string_view name) {
    Symbol& symbol = scope->symbols[std::string(name)];
    if (symbol.slot < 0) symbol.slot = scope->function->slots++;
    symbol.load = LoadAs::kParameter;
    return symbol.slot;
  }

  void Load(Scope* scope, std::string_view name) {
    Place place;
    if (!Find(scope, name, &place)) scope->symbols.emplace(std::string(name), Symbol());
  }

  void Store(Scope* scope, std::string_view name) {
    const auto [found, inserted] = scope->symbols.try_emplace(std::string(name));
    Symbol& symbol = found->second;
    if (symbol.slot >= 0) return;
    symbol.slot = scope->function->slots++;
    if (!inserted) return;  // read before: starts as the global
    const Scope* parent = scope->parent;
    if (parent != nullptr && Find(parent, name, &symbol.outer)) {
      symbol.load = LoadAs::kOuter;
      symbol.outer.hops += scope->level - parent->level;
    } else {
      // What only one branch sets is the global in the others.
      symbol.load = branches_ > 0 ? LoadAs::kGlobal : LoadAs::kNothing;
    }
  }

  static void Children(Expr* expr, const auto& visit) {
    for (const ExprPtr& child : expr->children) {
      if (child != nullptr) visit(child.get());
    }
    if (expr->call == nullptr) return;
    for (const ExprPtr& argument : expr->call->arguments) visit(argument.get());
    for (const auto& [name, argument] : expr->call->named) visit(argument.get());
    if (expr->call->star != nullptr) visit(expr->call->star.get());
    if (expr->call->double_star != nullptr) visit(expr->call->double_star.get());
  }

  void LoadNames(Expr* expr, Scope* scope) {
    if (expr == nullptr) return;
    if (expr->kind == ExprKind::kName) Load(scope, expr->value.text());
    Children(expr, [&](Expr* child) { LoadNames(child, scope); });
  }

  void StoreNames(Expr* target, Scope* scope, bool is_parameter) {
    if (target->kind == ExprKind::kName) {
      if (is_parameter) {
        Declare(scope, target->value.text());
      } else {
        Store(scope, target->value.text());
      }
      if (fors_ > 0 && target->value.text() == "loop" && error_->message.empty()) {
        *error_ = {target->line, "Can't assign to special loop variable in for-loop target",
                   "TemplateAssertionError"};
      }
    } else if (target->kind == ExprKind::kNamespaceAttribute) {
      Load(scope, target->children[0]->value.text());
    } else {
      for (const ExprPtr& child : target->children) StoreNames(child.get(), scope, is_parameter);
    }
  }

  // First pass over a scope: which names it reads and sets, without the scopes inside.
  void Analyze(const Body& body, Scope* scope) {
    for (const auto& statement : body) AnalyzeStatement(statement.get(), scope);
  }

  void AnalyzeStatement(Stmt* statement, Scope* scope) {
    switch (statement->kind) {
      case StmtKind::kPrint:
      case StmtKind::kCallBlock:
      case StmtKind::kFilterBlock:
        for (const ExprPtr& expr : statement->exprs) LoadNames(expr.get(), scope);
        break;
      case StmtKind::kIf:
        // Conditions of later branches are read in a branch too, which makes no difference.
        for (auto& [condition, body] : statement->branches) {
          LoadNames(condition.get(), scope);
          ++branches_;
          Analyze(body, scope);
          --branches_;
        }
        ++branches_;
        Analyze(statement->otherwise, scope);
        --branches_;
        break;
      case StmtKind::kFor:
        LoadNames(statement->loop->iterable.get(), scope);
        break;
      case StmtKind::kSet:
        LoadNames(statement->exprs[1].get(), scope);
        StoreNames(statement->exprs[0].get(), scope, false);
        break;
      case StmtKind::kSetBlock:
        StoreNames(statement->exprs[0].get(), scope, false);
        break;
      case StmtKind::kWith:
        for (size_t i = 1; i < statement->exprs.size(); i += 2) {
          LoadNames(statement->exprs[i].get(), scope);
        }
        break;
      case StmtKind::kMacro:
        StoreNames(statement->exprs[0].get(), scope, false);
        break;
      case StmtKind::kText:
      case StmtKind::kGeneration:
      case StmtKind::kBreak:
      case StmtKind::kContinue:
        break;
    }
  }

  void Bind(Expr* expr, const Scope* scope) {
    if (expr == nullptr) return;
    if (expr->kind == ExprKind::kName && !Find(scope, expr->value.text(), &expr->place)) {
      expr->place = {Place::In::kGlobals, 0, Global(expr->value.text())};
    }
    Children(expr, [&](Expr* child) { Bind(child, scope); });
  }

  // Second pass, after Analyze of all that belongs to the scope.
  bool BindStatements(Body* body, Scope* scope) {
    for (const auto& statement : *body) {
      if (!BindStatement(statement.get(), scope)) return false;
    }
    return error_->message.empty();
  }

  static void Enter(const Scope& scope, NameBinder* binder, ScopeEntry* entry) {
    for (const auto& [name, symbol] : scope.symbols) {
      if (symbol.slot < 0 || symbol.load == LoadAs::kParameter) continue;
      const Place from = symbol.load == LoadAs::kGlobal
                             ? Place{Place::In::kGlobals, 0, binder->Global(name)}
                             : symbol.outer;
      entry->loads.push_back({symbol.slot, symbol.load != LoadAs::kNothing, from});
    }
  }

  // Both passes over a body whose scope has its parameters.
  bool BindBody(Body* body, Scope* scope, ScopeEntry* entry) {
    const int branches = std::exchange(branches_, 0);
    Analyze(*body, scope);
    Enter(*scope, this, entry);
    const bool good = BindStatements(body, scope);
    branches_ = branches;
    return good;
  }

  bool BindInner(Stmt* statement, Scope* scope) {
    Scope inner{scope, scope->function, scope->level};
    if (statement->kind == StmtKind::kFilterBlock) LoadNames(statement->exprs[0].get(), &inner);
    if (statement->kind == StmtKind::kSetBlock) LoadNames(statement->exprs[1].get(), &inner);
    if (statement->kind == StmtKind::kWith) {
      for (size_t i = 0; i < statement->exprs.size(); i += 2) {
        StoreNames(statement->exprs[i].get(), &inner, true);
        Bind(statement->exprs[i].get(), &inner);
        Bind(statement->exprs[i + 1].get(), scope);
      }
    }
    if (!BindBody(&statement->body, &inner, &statement->scope)) return false;
    if (statement->kind == StmtKind::kFilterBlock) Bind(statement->exprs[0].get(), &inner);
    if (statement->kind == StmtKind::kSetBlock) {
      Bind(statement->exprs[0].get(), scope);
      Bind(statement->exprs[1].get(), &inner);
    }
    return true;
  }

  bool BindFor(Stmt* statement, Scope* scope) {
    ForLoop& loop = *statement->loop;
    Bind(loop.iterable.get(), scope);
    FunctionInfo* function = loop.recursive ? &loop.function : scope->function;
    const int level = scope->level + (loop.recursive ? 1 : 0);
    ++fors_;
    if (loop.condition != nullptr) {
      Scope test{scope, function, level};
      StoreNames(loop.condition_target.get(), &test, true);
      Bind(loop.condition_target.get(), &test);
      LoadNames(loop.condition.get(), &test);
      Enter(test, this, &loop.condition_scope);
      Bind(loop.condition.get(), &test);
    }
    Scope body{scope, function, level};
    loop.loop_slot = Declare(&body, "loop");
    StoreNames(loop.target.get(), &body, true);
    Bind(loop.target.get(), &body);
    bool good = BindBody(&statement->body, &body, &statement->scope);
    Scope otherwise{scope, function, level};
    good = good && BindBody(&statement->otherwise, &otherwise, &loop.else_scope);
    --fors_;
    return good;
  }

  bool BindMacro(MacroInfo* macro, Scope* scope) {
    Scope inner{scope, &macro->function, scope->level + 1};
    const int fors = std::exchange(fors_, 0);  // a parameter may be named loop
    for (const ExprPtr& parameter : macro->parameters) {
      StoreNames(parameter.get(), &inner, true);
      Bind(parameter.get(), &inner);
    }
    fors_ = fors;
    if (macro->uses_caller && !macro->explicit_caller) {
      macro->caller_slot = Declare(&inner, "caller");
    }
    if (macro->uses_kwargs) macro->kwargs_slot = Declare(&inner, "kwargs");
    if (macro->uses_varargs) macro->varargs_slot = Declare(&inner, "varargs");
    for (const ExprPtr& value : macro->defaults) LoadNames(value.get(), &inner);
    if (!BindBody(&macro->body, &inner, &macro->scope)) return false;
    for (const ExprPtr& value : macro->defaults) Bind(value.get(), &inner);
    return true;
  }

  bool BindStatement(Stmt* statement, Scope* scope) {
    switch (statement->kind) {
      case StmtKind::kPrint:
      case StmtKind::kSet:
        for (const ExprPtr& expr : statement->exprs) Bind(expr.get(), scope);
        return true;
      case StmtKind::kIf:
        for (auto& [condition, body] : statement->branches) {
          Bind(condition.get(), scope);
          if (!BindStatements(&body, scope)) return false;
        }
        return BindStatements(&statement->otherwise, scope);
      case StmtKind::kFor:
        return BindFor(statement, scope);
      case StmtKind::kMacro:
      case StmtKind::kCallBlock:
        Bind(statement->exprs[0].get(), scope);
        return BindMacro(statement->macro.get(), scope);
      case StmtKind::kSetBlock:
      case StmtKind::kWith:
      case StmtKind::kFilterBlock:
      case StmtKind::kGeneration:
        return BindInner(statement, scope);
      case StmtKind::kText:
      case StmtKind::kBreak:
      case StmtKind::kContinue:
        return true;
    }
    return true;
  }

  Program* const program_;
  SyntaxError* const error_;
  absl::flat_hash_map<std::string, int> global_index_;
  int branches_ = 0;  // ifs around, in the scope
  int fors_ = 0;      // for statements around
};

}  // namespace

bool BindNames(Program* program, SyntaxError* error) { return NameBinder(program, error).Run(); }

}  // namespace coxswain::data::jinja
