#include "controller/text/jinja/syntax/expression_parser.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace coxswain::data::jinja {
bool ExpressionParser::SkipName(std::string_view name) {
  const bool is = IsName(name);
  if (is) Next();
  return is;
}

bool ExpressionParser::SkipSign(std::string_view sign) {
  const bool is = IsSign(sign);
  if (is) Next();
  return is;
}

bool ExpressionParser::ExpectSign(std::string_view sign) {
  if (SkipSign(sign)) return true;
  return Fail(
      absl::StrCat("expected token '", std::string(sign), "', got '", Describe(current()), "'"));
}

bool ExpressionParser::Expect(TokenKind kind, const char* what) {
  if (current().kind != kind) {
    return Fail(absl::StrCat("expected token '", what, "', got '", Describe(current()), "'"));
  }
  Next();
  return true;
}

bool ExpressionParser::Fail(std::string message, int line, const char* kind) {
  if (error_.message.empty()) error_ = {line > 0 ? line : current().line, std::move(message), kind};
  return false;
}

bool ExpressionParser::FailNesting() {
  return Fail(absl::StrCat("nested deeper than ", kMaxDepth, " levels"));
}

void ExpressionParser::FailLater(std::string message, int line, const char* kind) {
  late_errors_.push_back({line, std::move(message), kind});
}

Value ExpressionParser::Constant(std::string text, bool big_integer) {
  auto object = std::make_unique<String>(std::move(text), false);
  object->references = Object::kUncounted;
  object->Length();  // counted now: threads share it
  program_->constants.push_back(std::move(object));
  return Value(big_integer ? Kind::kBigInt : Kind::kString, program_->constants.back().get());
}

ExprPtr ExpressionParser::Make(ExprKind kind, int line, ExprPtr first, ExprPtr second,
                               ExprPtr third) {
  auto expr = std::make_unique<Expr>(kind, line);
  for (ExprPtr* child : {&first, &second, &third}) {
    if (*child != nullptr) expr->children.push_back(std::move(*child));
  }
  return Finish(std::move(expr));
}

ExprPtr ExpressionParser::Finish(ExprPtr expr) {
  const auto below = [&](const ExprPtr& child) {
    if (child != nullptr) expr->depth = std::max(expr->depth, child->depth + 1);
  };
  for (const ExprPtr& child : expr->children) below(child);
  if (expr->call != nullptr) {
    for (const ExprPtr& argument : expr->call->arguments) below(argument);
    for (const auto& [name, argument] : expr->call->named) below(argument);
    below(expr->call->star);
    below(expr->call->double_star);
  }
  if (expr->depth > kMaxDepth) {
    Fail(absl::StrCat("an expression is deeper than ", kMaxDepth, " levels"), expr->line);
    return nullptr;
  }
  return expr;
}

ExprPtr ExpressionParser::ParseTuple(bool with_condition, std::string_view end_name,
                                     bool in_brackets) {
  const Nested nested(this);
  if (!nested.ok()) return nullptr;
  const int line = current().line;
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  while (true) {
    const bool ends = current().kind == TokenKind::kVariableEnd ||
                      current().kind == TokenKind::kBlockEnd || IsSign(")") ||
                      (!end_name.empty() && IsName(end_name));
    if (ends) break;
    ExprPtr item = with_condition ? ParseCondition() : ParseOr();
    if (item == nullptr) return nullptr;
    items.push_back(std::move(item));
    if (!SkipSign(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items[0]);
  if (!is_tuple && !in_brackets) {
    Fail(absl::StrCat("Expected an expression, got '", Describe(current()), "'"));
    return nullptr;
  }
  auto tuple = std::make_unique<Expr>(ExprKind::kTuple, line);
  tuple->children = std::move(items);
  return Finish(std::move(tuple));
}

// jinja2 lets unknown filters pass in all three parts of a conditional expression.
ExprPtr ExpressionParser::ParseCondition() {
  const Nested nested(this);
  if (!nested.ok()) return nullptr;
  int line = current().line;
  const size_t late_errors = late_errors_.size();
  ExprPtr expr = ParseOr();
  while (expr != nullptr && SkipName("if")) {
    late_errors_.erase(
        std::remove_if(late_errors_.begin() + static_cast<std::ptrdiff_t>(late_errors),
                       late_errors_.end(),
                       [](const SyntaxError& error) { return error.kind == kUnknownName; }),
        late_errors_.end());
    const bool was_soft = std::exchange(soft_, true);
    ExprPtr condition = ParseOr();
    ExprPtr otherwise;
    if (condition != nullptr && SkipName("else")) {
      otherwise = ParseCondition();
      if (otherwise == nullptr) return nullptr;
    }
    soft_ = was_soft;
    if (condition == nullptr) return nullptr;
    expr = Make(ExprKind::kCondition, line, std::move(expr), std::move(condition),
                std::move(otherwise));
    line = current().line;
  }
  return expr;
}

ExprPtr ExpressionParser::ParseChain(ExprKind kind, std::string_view word,
                                     ExprPtr (ExpressionParser::*part)()) {
  const int line = current().line;
  ExprPtr first = (this->*part)();
  const auto more = [&] { return kind == ExprKind::kConcat ? IsSign(word) : IsName(word); };
  if (first == nullptr || !more()) return first;
  auto chain = std::make_unique<Expr>(kind, line);
  chain->children.push_back(std::move(first));
  while (more()) {
    Next();
    ExprPtr next = (this->*part)();
    if (next == nullptr) return nullptr;
    chain->children.push_back(std::move(next));
  }
  return Finish(std::move(chain));
}

ExprPtr ExpressionParser::ParseOr() {
  return ParseChain(ExprKind::kOr, "or", &ExpressionParser::ParseAnd);
}

ExprPtr ExpressionParser::ParseAnd() {
  return ParseChain(ExprKind::kAnd, "and", &ExpressionParser::ParseNot);
}

ExprPtr ExpressionParser::ParseNot() {
  if (!IsName("not")) return ParseCompare();
  const Nested nested(this);
  if (!nested.ok()) return nullptr;
  const int line = Next().line;
  ExprPtr operand = ParseNot();
  return operand == nullptr ? nullptr : Make(ExprKind::kNot, line, std::move(operand));
}

bool ExpressionParser::ParseComparison(Operator* op) {
  static constexpr std::pair<std::string_view, Operator> kSigns[] = {
      {"==", Operator::kEqual},     {"!=", Operator::kNotEqual}, {"<", Operator::kLess},
      {"<=", Operator::kLessEqual}, {">", Operator::kGreater},   {">=", Operator::kGreaterEqual}};
  for (const auto& [sign, meaning] : kSigns) {
    if (!SkipSign(sign)) continue;
    *op = meaning;
    return true;
  }
  if (SkipName("in")) {
    *op = Operator::kIn;
    return true;
  }
  if (IsName("not") && following().kind == TokenKind::kName && following().text == "in") {
    Next();
    Next();
    *op = Operator::kNotIn;
    return true;
  }
  return false;
}

ExprPtr ExpressionParser::ParseCompare() {
  const int line = current().line;
  ExprPtr first = ParseSum();
  Operator op;
  if (first == nullptr || !ParseComparison(&op)) return first;
  auto compare = std::make_unique<Expr>(ExprKind::kCompare, line);
  compare->children.push_back(std::move(first));
  do {
    ExprPtr operand = ParseSum();
    if (operand == nullptr) return nullptr;
    compare->operators.push_back(op);
    compare->children.push_back(std::move(operand));
  } while (ParseComparison(&op));
  return Finish(std::move(compare));
}

ExprPtr ExpressionParser::ParseSum() {
  int line = current().line;
  ExprPtr left = ParseConcat();
  while (left != nullptr && (IsSign("+") || IsSign("-"))) {
    const Operator op = Next().text == "+" ? Operator::kAdd : Operator::kSubtract;
    ExprPtr right = ParseConcat();
    if (right == nullptr) return nullptr;
    left = Make(ExprKind::kBinary, line, std::move(left), std::move(right));
    if (left != nullptr) left->op = op;
    line = current().line;
  }
  return left;
}

ExprPtr ExpressionParser::ParseConcat() {
  return ParseChain(ExprKind::kConcat, "~", &ExpressionParser::ParseProduct);
}

ExprPtr ExpressionParser::ParseProduct() {
  int line = current().line;
  ExprPtr left = ParsePower();
  while (left != nullptr && (IsSign("*") || IsSign("/") || IsSign("//") || IsSign("%"))) {
    const std::string sign = Next().text;
    ExprPtr right = ParsePower();
    if (right == nullptr) return nullptr;
    left = Make(ExprKind::kBinary, line, std::move(left), std::move(right));
    if (left == nullptr) return nullptr;
    left->op = sign == "*"    ? Operator::kMultiply
               : sign == "/"  ? Operator::kDivide
               : sign == "//" ? Operator::kFloorDivide
                              : Operator::kModulo;
    line = current().line;
  }
  return left;
}

// Unlike Python's, ** binds to the left here: what jinja2's parser builds, Python then reads again,
// with brackets around each power.
ExprPtr ExpressionParser::ParsePower() {
  const int line = current().line;
  ExprPtr left = ParseUnary(true);
  while (left != nullptr && SkipSign("**")) {
    ExprPtr right = ParseUnary(true);
    if (right == nullptr) return nullptr;
    left = Make(ExprKind::kBinary, line, std::move(left), std::move(right));
    if (left != nullptr) left->op = Operator::kPower;
  }
  return left;
}

ExprPtr ExpressionParser::ParseUnary(bool with_filter) {
  const Nested nested(this);
  if (!nested.ok()) return nullptr;
  const int line = current().line;
  ExprPtr expr;
  if (IsSign("-") || IsSign("+")) {
    const ExprKind kind = Next().text == "-" ? ExprKind::kNegate : ExprKind::kPositive;
    ExprPtr operand = ParseUnary(false);
    if (operand == nullptr) return nullptr;
    expr = Make(kind, line, std::move(operand));
  } else {
    expr = ParsePrimary();
  }
  if (expr != nullptr) expr = ParsePostfix(std::move(expr));
  if (expr != nullptr && with_filter) expr = ParseFilterExpression(std::move(expr));
  return expr;
}

ExprPtr ExpressionParser::ParseNumber(const Token& token) {
  ExprPtr expr = Make(ExprKind::kConstant, token.line);
  if (token.kind == TokenKind::kFloat) {
    expr->value = Value::Float(std::strtod(token.text.c_str(), nullptr));
    return expr;
  }
  std::string_view digits = token.text;
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0') {
    const char letter = static_cast<char>(digits[1] | 32);
    base = letter == 'b' ? 2 : letter == 'o' ? 8 : letter == 'x' ? 16 : 10;
    if (base != 10) digits.remove_prefix(2);
  }
  int64_t value = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (read.ec == std::errc()) {
    expr->value = Value::Int(value);
  } else if (base == 10) {
    expr->value = Constant(token.text, /*big_integer=*/true);
  } else {
    Fail("an integer exceeds 64 bits, which is not supported", token.line);
    return nullptr;
  }
  return expr;
}

ExprPtr ExpressionParser::ParsePrimary() {
  const Token token = current();
  switch (token.kind) {
    case TokenKind::kName: {
      Next();
      ExprPtr expr = Make(ExprKind::kConstant, token.line);
      if (token.text == "true" || token.text == "True") {
        expr->value = Value::Bool(true);
      } else if (token.text == "false" || token.text == "False") {
        expr->value = Value::Bool(false);
      } else if (token.text == "none" || token.text == "None") {
        expr->value = Value::None();
      } else {
        expr->kind = ExprKind::kName;
        expr->value = Constant(token.text);
        for (MacroInfo* macro : macros_) {
          macro->uses_caller |= token.text == "caller";
          macro->uses_kwargs |= token.text == "kwargs";
          macro->uses_varargs |= token.text == "varargs";
        }
      }
      return expr;
    }
    case TokenKind::kString: {
      std::string text;
      while (current().kind == TokenKind::kString) text += Next().text;
      ExprPtr expr = Make(ExprKind::kConstant, token.line);
      expr->value = Constant(std::move(text));
      return expr;
    }
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      Next();
      return ParseNumber(token);
    default:
      break;
  }
  if (SkipSign("(")) {
    ExprPtr expr = ParseTuple(true, {}, /*in_brackets=*/true);
    return expr != nullptr && ExpectSign(")") ? std::move(expr) : nullptr;
  }
  if (IsSign("[")) return ParseList();
  if (IsSign("{")) return ParseDict();
  Fail(absl::StrCat("unexpected '", Describe(token), "'"));
  return nullptr;
}

ExprPtr ExpressionParser::ParseList() {
  auto list = std::make_unique<Expr>(ExprKind::kList, Next().line);
  while (!IsSign("]")) {
    if (!list->children.empty() && !ExpectSign(",")) return nullptr;
    if (IsSign("]")) break;
    ExprPtr item = ParseExpression();
    if (item == nullptr) return nullptr;
    list->children.push_back(std::move(item));
  }
  Next();
  return Finish(std::move(list));
}

ExprPtr ExpressionParser::ParseDict() {
  auto dict = std::make_unique<Expr>(ExprKind::kDict, Next().line);
  while (!IsSign("}")) {
    if (!dict->children.empty() && !ExpectSign(",")) return nullptr;
    if (IsSign("}")) break;
    ExprPtr key = ParseExpression();
    if (key == nullptr || !ExpectSign(":")) return nullptr;
    ExprPtr value = ParseExpression();
    if (value == nullptr) return nullptr;
    dict->children.push_back(std::move(key));
    dict->children.push_back(std::move(value));
  }
  Next();
  return Finish(std::move(dict));
}

ExprPtr ExpressionParser::ParseName() {
  const Token token = current();
  if (!Expect(TokenKind::kName, "name")) return nullptr;
  for (const char* constant : {"true", "false", "none", "True", "False", "None"}) {
    if (token.text == constant) {
      Fail(absl::StrCat("can't assign to '", token.text, "'"), token.line);
      return nullptr;
    }
  }
  ExprPtr expr = Make(ExprKind::kName, token.line);
  expr->value = Constant(token.text);
  return expr;
}

ExprPtr ExpressionParser::ParseTargetPrimary(bool with_namespace) {
  if (SkipSign("(")) {
    ExprPtr target = ParseTarget(false, {});
    return target != nullptr && ExpectSign(")") ? std::move(target) : nullptr;
  }
  if (current().kind != TokenKind::kName) {
    Fail(absl::StrCat("can't assign to '", Describe(current()), "'"));
    return nullptr;
  }
  ExprPtr name = ParseName();
  if (name == nullptr || !with_namespace || !SkipSign(".")) return name;
  const Token attribute = current();
  if (!Expect(TokenKind::kName, "name")) return nullptr;
  const int line = name->line;
  ExprPtr expr = Make(ExprKind::kNamespaceAttribute, line, std::move(name));
  if (expr != nullptr) expr->value = Constant(attribute.text);
  return expr;
}

ExprPtr ExpressionParser::ParseTarget(bool with_namespace, std::string_view end_name) {
  const Nested nested(this);
  if (!nested.ok()) return nullptr;
  const int line = current().line;
  ExprPtr first = ParseTargetPrimary(with_namespace);
  if (first == nullptr || !IsSign(",")) return first;
  auto tuple = std::make_unique<Expr>(ExprKind::kTuple, line);
  tuple->children.push_back(std::move(first));
  while (SkipSign(",")) {
    const bool ends = IsSign("=") || IsSign(")") || current().kind == TokenKind::kBlockEnd ||
                      (!end_name.empty() && IsName(end_name));
    if (ends) break;
    ExprPtr next = ParseTargetPrimary(with_namespace);
    if (next == nullptr) return nullptr;
    tuple->children.push_back(std::move(next));
  }
  return Finish(std::move(tuple));
}

}  // namespace coxswain::data::jinja
