// Parses tokens into expressions.
#ifndef COXSWAIN_CONTROLLER_TEXT_JINJA_SYNTAX_EXPRESSION_PARSER_H_
#define COXSWAIN_CONTROLLER_TEXT_JINJA_SYNTAX_EXPRESSION_PARSER_H_

#include <string>
#include <string_view>
#include <vector>

#include "controller/text/jinja/syntax/ast.h"
#include "controller/text/jinja/syntax/lexer.h"

namespace coxswain::data::jinja {

// Functions return nullptr after a failure; see error(). Nesting is bounded in the text and in the
// tree, so that parsing and evaluation cannot recurse without limit.
class ExpressionParser {
 public:
  // Most levels of an expression's tree, and of statements. Python refuses the code that jinja2
  // generates for more than 200 brackets.
  static constexpr int kMaxDepth = 200;

  ExpressionParser(std::vector<Token> tokens, Program* program)
      : tokens_(std::move(tokens)), program_(program) {}

  // The first error of Fail, else the first of FailLater. An empty message: no error.
  const SyntaxError& error() const {
    return error_.message.empty() && !late_errors_.empty() ? late_errors_.front() : error_;
  }

 protected:
  // A comma makes a tuple. The name `end_name`, such as "in", ends the expression too.
  ExprPtr ParseTuple(bool with_condition, std::string_view end_name = {}, bool in_brackets = false);
  ExprPtr ParseExpression() { return ParseCondition(); }
  // A name, a tuple of targets, or with `with_namespace` a name.attribute.
  ExprPtr ParseTarget(bool with_namespace, std::string_view end_name = {});
  ExprPtr ParseName();  // a name to assign to
  // Parses "| filter ..." on `input`, which may be null. With `starts_inline` the first filter has
  // no bar.
  ExprPtr ParseFilters(ExprPtr input, bool starts_inline);

  const Token& current() const { return tokens_[at_]; }
  const Token& following() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token Next() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_[at_]; }
  bool IsName(std::string_view name) const {
    return current().kind == TokenKind::kName && current().text == name;
  }
  bool IsSign(std::string_view sign) const {
    return current().kind == TokenKind::kOperator && current().text == sign;
  }
  bool SkipName(std::string_view name);
  bool SkipSign(std::string_view sign);
  bool ExpectSign(std::string_view sign);
  bool Expect(TokenKind kind, const char* what);
  // Records an error and returns false. `kind` is Python's exception type. line 0: the line of the
  // current token.
  bool Fail(std::string message, int line = 0, const char* kind = "TemplateSyntaxError");

  // Records an error that jinja2 finds only after parsing. Parsing continues.
  void FailLater(std::string message, int line, const char* kind);

  // A string that lives as long as the template.
  Value Constant(std::string text, bool big_integer = false);

  Program* program() { return program_; }

  std::vector<MacroInfo*> macros_;  // macros whose body is being parsed
  bool soft_ = false;  // inside a condition: an unknown filter fails only when it is reached
  int nesting_ = 0;

 private:
  // One level of nesting of the text. ok() is false when the level exceeds the limit.
  class Nested {
   public:
    explicit Nested(ExpressionParser* parser) : parser_(parser) { ++parser_->nesting_; }
    ~Nested() { --parser_->nesting_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    bool ok() const { return parser_->nesting_ <= kMaxDepth || parser_->FailNesting(); }

   private:
    ExpressionParser* const parser_;
  };

  static constexpr char kUnknownName[] = "TemplateAssertionError";  // for an unknown filter or test

  bool FailNesting();

  ExprPtr Make(ExprKind kind, int line, ExprPtr first = nullptr, ExprPtr second = nullptr,
               ExprPtr third = nullptr);
  ExprPtr Finish(ExprPtr expr);  // sets its depth
  ExprPtr ParseCondition();
  ExprPtr ParseChain(ExprKind kind, std::string_view word, ExprPtr (ExpressionParser::*part)());
  ExprPtr ParseOr();
  ExprPtr ParseAnd();
  ExprPtr ParseNot();
  ExprPtr ParseCompare();
  bool ParseComparison(Operator* op);
  ExprPtr ParseSum();
  ExprPtr ParseConcat();
  ExprPtr ParseProduct();
  ExprPtr ParsePower();
  ExprPtr ParseUnary(bool with_filter);
  ExprPtr ParsePrimary();
  ExprPtr ParseNumber(const Token& token);
  ExprPtr ParseList();
  ExprPtr ParseDict();
  ExprPtr ParsePostfix(ExprPtr expr);
  ExprPtr ParseFilterExpression(ExprPtr expr);
  ExprPtr ParseAttribute(ExprPtr owner, int line);
  ExprPtr ParseSubscript(ExprPtr owner, int line);
  ExprPtr ParseSubscripted(int line, bool* is_slice);
  ExprPtr ParseCall(ExprPtr callee);
  std::unique_ptr<CallSite> ParseArguments();
  bool ParseArgument(CallSite* call);
  ExprPtr ParseTest(ExprPtr expr);
  bool ParseDottedName(std::string* name);
  bool LookUp(const char* what, const std::string& name, int line, Expr* expr);
  ExprPtr ParseTargetPrimary(bool with_namespace);

  std::vector<Token> tokens_;
  size_t at_ = 0;
  Program* const program_;
  SyntaxError error_;
  std::vector<SyntaxError> late_errors_;
};

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_TEXT_JINJA_SYNTAX_EXPRESSION_PARSER_H_
