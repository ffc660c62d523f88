// What follows an operand: attributes, subscripts, calls, filters and tests.
#include "absl/strings/str_cat.h"
#include "controller/text/jinja/syntax/builtins.h"
#include "controller/text/jinja/syntax/expression_parser.h"

namespace coxswain::data::jinja {

ExprPtr ExpressionParser::ParsePostfix(ExprPtr expr) {
  while (expr != nullptr) {
    const int line = current().line;
    if (SkipSign(".")) {
      expr = ParseAttribute(std::move(expr), line);
    } else if (SkipSign("[")) {
      expr = ParseSubscript(std::move(expr), line);
    } else if (IsSign("(")) {
      expr = ParseCall(std::move(expr));
    } else {
      break;
    }
  }
  return expr;
}

ExprPtr ExpressionParser::ParseFilterExpression(ExprPtr expr) {
  while (expr != nullptr) {
    if (IsSign("|")) {
      expr = ParseFilters(std::move(expr), false);
    } else if (IsName("is")) {
      expr = ParseTest(std::move(expr));
    } else if (IsSign("(")) {
      expr = ParseCall(std::move(expr));
    } else {
      break;
    }
  }
  return expr;
}

ExprPtr ExpressionParser::ParseAttribute(ExprPtr owner, int line) {
  const Token token = Next();
  if (token.kind == TokenKind::kName) {
    ExprPtr expr = Make(ExprKind::kAttribute, line, std::move(owner));
    if (expr == nullptr) return nullptr;
    expr->value = Constant(token.text);
    expr->methods = FindMethods(token.text);
    return expr;
  }
  if (token.kind == TokenKind::kInteger) {
    ExprPtr index = ParseNumber(token);
    return index == nullptr ? nullptr
                            : Make(ExprKind::kItem, line, std::move(owner), std::move(index));
  }
  Fail("expected name or number", token.line);
  return nullptr;
}

// One of the parts between the brackets: an expression, or the bounds of a slice.
ExprPtr ExpressionParser::ParseSubscripted(int line, bool* is_slice) {
  ExprPtr bounds[3];
  const auto ends = [&] { return IsSign("]") || IsSign(",") || IsSign(":"); };
  *is_slice = false;
  for (int i = 0; i < 3; ++i) {
    if (!ends() && (bounds[i] = ParseExpression()) == nullptr) return nullptr;
    if (i == 0 && !IsSign(":")) {
      if (bounds[0] == nullptr) ParsePrimary();  // tells what is unexpected
      return std::move(bounds[0]);
    }
    if (i == 2 || !SkipSign(":")) break;
    *is_slice = true;
  }
  auto slice = std::make_unique<Expr>(ExprKind::kSlice, line);
  slice->children.push_back(nullptr);  // what is sliced is put there by the caller
  for (ExprPtr& bound : bounds) slice->children.push_back(std::move(bound));
  return Finish(std::move(slice));
}

ExprPtr ExpressionParser::ParseSubscript(ExprPtr owner, int line) {
  bool is_slice = false;
  std::vector<ExprPtr> keys;
  while (!IsSign("]")) {
    if (!keys.empty() && !ExpectSign(",")) return nullptr;
    ExprPtr key = ParseSubscripted(line, &is_slice);
    if (key == nullptr) return nullptr;
    if (is_slice) {
      if (!keys.empty() || !IsSign("]")) {
        Fail("a slice in a tuple of subscripts is not supported", line);
        return nullptr;
      }
      Next();
      key->children[0] = std::move(owner);
      return Finish(std::move(key));
    }
    keys.push_back(std::move(key));
  }
  Next();
  if (keys.size() == 1) return Make(ExprKind::kItem, line, std::move(owner), std::move(keys[0]));
  auto tuple = std::make_unique<Expr>(ExprKind::kTuple, line);
  tuple->children = std::move(keys);
  ExprPtr key = Finish(std::move(tuple));
  return key == nullptr ? nullptr : Make(ExprKind::kItem, line, std::move(owner), std::move(key));
}

bool ExpressionParser::ParseArgument(CallSite* call) {
  const auto misplaced = [&](bool is) {
    return !is || Fail("invalid syntax for function call expression");
  };
  if (SkipSign("*")) {
    if (!misplaced(call->star != nullptr || call->double_star != nullptr)) return false;
    return (call->star = ParseExpression()) != nullptr;
  }
  if (SkipSign("**")) {
    if (!misplaced(call->double_star != nullptr)) return false;
    return (call->double_star = ParseExpression()) != nullptr;
  }
  const bool named = current().kind == TokenKind::kName &&
                     following().kind == TokenKind::kOperator && following().text == "=";
  if (named) {
    if (!misplaced(call->double_star != nullptr)) return false;
    const Token name = Next();
    Next();
    ExprPtr value = ParseExpression();
    if (value == nullptr) return false;
    for (const auto& [other, unused] : call->named) {
      if (other.text() == name.text) {
        FailLater(absl::StrCat("keyword argument repeated: ", name.text), name.line, "SyntaxError");
      }
    }
    call->named.emplace_back(Constant(name.text), std::move(value));
    return true;
  }
  const bool late = call->star != nullptr || call->double_star != nullptr || !call->named.empty();
  if (!misplaced(late)) return false;
  ExprPtr value = ParseExpression();
  if (value == nullptr) return false;
  call->arguments.push_back(std::move(value));
  return true;
}

std::unique_ptr<CallSite> ExpressionParser::ParseArguments() {
  if (!ExpectSign("(")) return nullptr;
  auto call = std::make_unique<CallSite>();
  bool first = true;
  while (!IsSign(")")) {
    if (!first && !ExpectSign(",")) return nullptr;
    if (!first && IsSign(")")) break;
    first = false;
    if (!ParseArgument(call.get())) return nullptr;
    if (call->named.size() > 255) {
      Fail("a call with more than 255 keyword arguments");
      return nullptr;
    }
  }
  Next();
  return call;
}

ExprPtr ExpressionParser::ParseCall(ExprPtr callee) {
  auto expr = std::make_unique<Expr>(ExprKind::kCall, current().line);
  expr->children.push_back(std::move(callee));
  expr->call = ParseArguments();
  return expr->call == nullptr ? nullptr : Finish(std::move(expr));
}

bool ExpressionParser::ParseDottedName(std::string* name) {
  do {
    if (current().kind != TokenKind::kName) return Expect(TokenKind::kName, "name");
    *name += (name->empty() ? "" : ".") + Next().text;
  } while (SkipSign("."));
  return true;
}

bool ExpressionParser::LookUp(const char* what, const std::string& name, int line, Expr* expr) {
  const bool is_filter = expr->kind == ExprKind::kFilter;
  expr->builtin = is_filter ? FindFilter(name) : FindTest(name);
  if (expr->builtin != nullptr) return true;
  const std::string why(is_filter ? WhyNoFilter(name) : "");
  if (!why.empty()) {
    return Fail(absl::StrCat("the ", what, " '", name, "' is not supported: ", why), line);
  }
  if (!soft_) FailLater(absl::StrCat("No ", what, " named '", name, "'."), line, kUnknownName);
  expr->value = Constant(name);
  return true;
}

ExprPtr ExpressionParser::ParseFilters(ExprPtr input, bool starts_inline) {
  while (starts_inline || IsSign("|")) {
    if (!starts_inline) Next();
    starts_inline = false;
    auto filter = std::make_unique<Expr>(ExprKind::kFilter, current().line);
    std::string name;
    if (!ParseDottedName(&name)) return nullptr;
    filter->children.push_back(std::move(input));
    if (!LookUp("filter", name, filter->line, filter.get())) return nullptr;
    if (IsSign("(")) {
      filter->call = ParseArguments();
      if (filter->call == nullptr) return nullptr;
    }
    input = Finish(std::move(filter));
    if (input == nullptr) return nullptr;
  }
  return input;
}

ExprPtr ExpressionParser::ParseTest(ExprPtr expr) {
  const int line = Next().line;
  const bool negated = SkipName("not");
  auto test = std::make_unique<Expr>(ExprKind::kTest, line);
  std::string name;
  if (!ParseDottedName(&name)) return nullptr;
  test->children.push_back(std::move(expr));
  if (!LookUp("test", name, line, test.get())) return nullptr;
  const TokenKind kind = current().kind;
  const bool has_operand =
      kind == TokenKind::kString || kind == TokenKind::kInteger || kind == TokenKind::kFloat ||
      IsSign("[") || IsSign("{") ||
      (kind == TokenKind::kName && !IsName("else") && !IsName("or") && !IsName("and"));
  if (IsSign("(")) {
    test->call = ParseArguments();
    if (test->call == nullptr) return nullptr;
  } else if (has_operand) {
    if (IsName("is")) {
      Fail("You cannot chain multiple tests with is");
      return nullptr;
    }
    const Nested nested(this);
    if (!nested.ok()) return nullptr;
    ExprPtr operand = ParsePrimary();
    if (operand != nullptr) operand = ParsePostfix(std::move(operand));
    if (operand == nullptr) return nullptr;
    test->call = std::make_unique<CallSite>();
    test->call->arguments.push_back(std::move(operand));
  }
  ExprPtr result = Finish(std::move(test));
  if (result == nullptr || !negated) return result;
  return Make(ExprKind::kNot, line, std::move(result));
}

}  // namespace coxswain::data::jinja
