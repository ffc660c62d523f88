#include "controller/text/jinja/syntax/parser.h"

#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "controller/text/jinja/syntax/expression_parser.h"
#include "controller/text/jinja/syntax/scope.h"

namespace coxswain::data::jinja {
namespace {

class StatementParser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  bool ParseRoot() { return ParseBody({}, &program()->body); }

 private:
  using Names = std::initializer_list<std::string_view>;

  bool AtAny(Names names) const {
    for (const std::string_view name : names) {
      if (IsName(name)) return true;
    }
    return false;
  }

  // Statements until a tag of `ends`, which becomes current.
  bool ParseBody(Names ends, Body* body) {
    while (true) {
      const Token& token = current();
      if (token.kind == TokenKind::kData) {
        body->push_back(std::make_unique<Stmt>(StmtKind::kText, token.line));
        body->back()->text = Next().text;
      } else if (token.kind == TokenKind::kVariableBegin) {
        const int line = Next().line;
        ExprPtr expr = ParseTuple(true);
        if (expr == nullptr || !Expect(TokenKind::kVariableEnd, "end of print statement")) {
          return false;
        }
        body->push_back(std::make_unique<Stmt>(StmtKind::kPrint, line));
        body->back()->exprs.push_back(std::move(expr));
      } else if (token.kind == TokenKind::kBlockBegin) {
        Next();
        if (AtAny(ends)) return true;
        std::unique_ptr<Stmt> statement = ParseStatement();
        if (statement == nullptr || !Expect(TokenKind::kBlockEnd, "end of statement block")) {
          return false;
        }
        body->push_back(std::move(statement));
      } else {
        return ends.size() == 0 || FailAtEnd(ends);
      }
    }
  }

  bool FailAtEnd(Names ends) {
    std::string wanted;
    for (const std::string_view end : ends) {
      absl::StrAppend(&wanted, wanted.empty() ? "'" : " or '", std::string(end), "'");
    }
    return Fail(
        absl::StrCat("Unexpected end of template. Jinja was looking for the following "
                     "tags: ",
                     wanted, "."));
  }

  // The end of the tag that is current, then statements until a tag of `ends`.
  bool ParseBlock(Names ends, Body* body) {
    SkipSign(":");
    if (!Expect(TokenKind::kBlockEnd, "end of statement block")) return false;
    if (++nesting_ > kMaxDepth) {
      return Fail(absl::StrCat("statements are nested deeper than ", kMaxDepth, " levels"));
    }
    const bool good = ParseBody(ends, body);
    --nesting_;
    return good;
  }

  // The same for a block that one tag ends, which is dropped.
  bool ParseWholeBlock(std::string_view end, Body* body) {
    if (!ParseBlock({end}, body)) return false;
    Next();
    return true;
  }

  std::unique_ptr<Stmt> ParseStatement() {
    const Token token = current();
    if (token.kind != TokenKind::kName) {
      Fail("tag name expected");
      return nullptr;
    }
    using Parse = std::unique_ptr<Stmt> (StatementParser::*)(int);
    static constexpr std::pair<std::string_view, Parse> kTags[] = {
        {"if", &StatementParser::ParseIf},
        {"for", &StatementParser::ParseFor},
        {"set", &StatementParser::ParseSet},
        {"macro", &StatementParser::ParseMacro},
        {"call", &StatementParser::ParseCallBlock},
        {"filter", &StatementParser::ParseFilterBlock},
        {"with", &StatementParser::ParseWith},
        {"print", &StatementParser::ParsePrint},
        {"generation", &StatementParser::ParseGeneration},
        {"break", &StatementParser::ParseBreak},
        {"continue", &StatementParser::ParseContinue}};
    for (const auto& [name, parse] : kTags) {
      if (token.text != name) continue;
      Next();
      return (this->*parse)(token.line);
    }
    for (const char* other : {"include", "import", "from", "extends", "block", "autoescape"}) {
      if (token.text == other) {
        Fail(absl::StrCat("the tag '", token.text,
                          "' is not supported: a chat template is one file"));
        return nullptr;
      }
    }
    Fail(absl::StrCat("Encountered unknown tag '", token.text, "'."));
    return nullptr;
  }

  std::unique_ptr<Stmt> ParseIf(int line) {
    auto statement = std::make_unique<Stmt>(StmtKind::kIf, line);
    const bool was_soft = std::exchange(soft_, true);
    while (true) {
      ExprPtr condition = ParseTuple(false);
      if (condition == nullptr) return nullptr;
      statement->branches.emplace_back(std::move(condition), Body());
      if (!ParseBlock({"elif", "else", "endif"}, &statement->branches.back().second)) {
        return nullptr;
      }
      const std::string tag = Next().text;
      if (tag == "elif") continue;
      if (tag == "else" && !ParseWholeBlock("endif", &statement->otherwise)) return nullptr;
      break;
    }
    soft_ = was_soft;
    return statement;
  }

  std::unique_ptr<Stmt> ParseFor(int line) {
    auto statement = std::make_unique<Stmt>(StmtKind::kFor, line);
    statement->loop = std::make_unique<ForLoop>();
    ForLoop& loop = *statement->loop;
    loop.target = ParseTarget(false, "in");
    if (loop.target == nullptr) return nullptr;
    if (!SkipName("in")) {
      Fail(absl::StrCat("expected token 'in', got '", Describe(current()), "'"));
      return nullptr;
    }
    loop.iterable = ParseTuple(false, "recursive");
    if (loop.iterable == nullptr) return nullptr;
    if (SkipName("if")) {
      loop.condition = ParseExpression();
      if (loop.condition == nullptr) return nullptr;
      loop.condition_target = CopyTarget(*loop.target);
    }
    loop.recursive = SkipName("recursive");
    const bool was_soft = std::exchange(soft_, false);
    ++loops_;
    const bool good = ParseBlock({"endfor", "else"}, &statement->body);
    --loops_;
    if (!good) return nullptr;
    const bool has_else = Next().text == "else";
    if (has_else && !ParseWholeBlock("endfor", &statement->otherwise)) return nullptr;
    soft_ = was_soft;
    return statement;
  }

  static ExprPtr CopyTarget(const Expr& target) {
    auto copy = std::make_unique<Expr>(target.kind, target.line);
    copy->value = target.value;
    for (const ExprPtr& child : target.children) copy->children.push_back(CopyTarget(*child));
    return copy;
  }

  std::unique_ptr<Stmt> ParseSet(int line) {
    ExprPtr target = ParseTarget(true);
    if (target == nullptr) return nullptr;
    const bool is_block = !SkipSign("=");
    auto statement = std::make_unique<Stmt>(is_block ? StmtKind::kSetBlock : StmtKind::kSet, line);
    statement->exprs.push_back(std::move(target));
    if (!is_block) {
      ExprPtr value = ParseTuple(true);
      if (value == nullptr) return nullptr;
      statement->exprs.push_back(std::move(value));
      return statement;
    }
    ExprPtr filter;
    if (IsSign("|") && (filter = ParseFilters(nullptr, false)) == nullptr) return nullptr;
    statement->exprs.push_back(std::move(filter));
    return ParseOwnBlock(std::move(statement), "endset");
  }

  // A body that is a Python function of its own in jinja2, or buffered: no break out of it where
  // `is_function`.
  std::unique_ptr<Stmt> ParseOwnBlock(std::unique_ptr<Stmt> statement, std::string_view end,
                                      bool is_function = false) {
    const bool was_soft = std::exchange(soft_, false);
    const int loops = is_function ? std::exchange(loops_, 0) : loops_;
    if (!ParseWholeBlock(end, &statement->body)) return nullptr;
    loops_ = loops;
    soft_ = was_soft;
    return statement;
  }

  bool ParseSignature(MacroInfo* macro) {
    if (!ExpectSign("(")) return false;
    while (!IsSign(")")) {
      if (!macro->parameters.empty() && !ExpectSign(",")) return false;
      const int line = current().line;
      ExprPtr name = ParseName();
      if (name == nullptr) return false;
      for (const ExprPtr& other : macro->parameters) {
        if (other->value.text() == name->value.text()) {
          FailLater(absl::StrCat("duplicate argument '", std::string(name->value.text()), "'"),
                    line, "SyntaxError");
        }
      }
      macro->explicit_caller |= name->value.text() == "caller";
      if (SkipSign("=")) {
        ExprPtr value = ParseExpression();
        if (value == nullptr) return false;
        macro->defaults.push_back(std::move(value));
      } else if (!macro->defaults.empty()) {
        return Fail("non-default argument follows default argument");
      }
      macro->parameters.push_back(std::move(name));
      if (macro->parameters.size() > 255) return Fail("a macro with more than 255 parameters");
    }
    Next();
    return true;
  }

  bool ParseMacroBody(std::string_view end, MacroInfo* macro) {
    const bool was_soft = std::exchange(soft_, false);
    const int loops = std::exchange(loops_, 0);
    macros_.push_back(macro);
    const bool good = ParseWholeBlock(end, &macro->body);
    macros_.pop_back();
    loops_ = loops;
    soft_ = was_soft;
    if (!good) return false;
    const auto is_parameter = [&](std::string_view name) {
      for (const ExprPtr& parameter : macro->parameters) {
        if (parameter->value.text() == name) return true;
      }
      return false;
    };
    if (is_parameter("kwargs")) macro->uses_kwargs = false;
    if (is_parameter("varargs")) macro->uses_varargs = false;
    // jinja2 asks for a default of a parameter named caller.
    const size_t plain = macro->parameters.size() - macro->defaults.size();
    for (size_t i = 0; i < plain && macro->uses_caller; ++i) {
      if (macro->parameters[i]->value.text() == "caller") {
        FailLater("the special \"caller\" argument must be omitted or be given a default",
                  macro->line, "TemplateAssertionError");
      }
    }
    return true;
  }

  std::unique_ptr<Stmt> ParseMacro(int line) {
    auto statement = std::make_unique<Stmt>(StmtKind::kMacro, line);
    statement->macro = std::make_unique<MacroInfo>();
    statement->macro->line = line;
    ExprPtr name = ParseName();
    if (name == nullptr) return nullptr;
    statement->macro->name = name->value.text();
    statement->exprs.push_back(std::move(name));
    if (!ParseSignature(statement->macro.get())) return nullptr;
    if (!ParseMacroBody("endmacro", statement->macro.get())) return nullptr;
    return statement;
  }

  std::unique_ptr<Stmt> ParseCallBlock(int line) {
    auto statement = std::make_unique<Stmt>(StmtKind::kCallBlock, line);
    statement->macro = std::make_unique<MacroInfo>();
    statement->macro->line = line;
    if (IsSign("(") && !ParseSignature(statement->macro.get())) return nullptr;
    ExprPtr call = ParseExpression();
    if (call == nullptr) return nullptr;
    if (call->kind != ExprKind::kCall) {
      Fail("expected call", line);
      return nullptr;
    }
    statement->exprs.push_back(std::move(call));
    if (!ParseMacroBody("endcall", statement->macro.get())) return nullptr;
    return statement;
  }

  std::unique_ptr<Stmt> ParseFilterBlock(int line) {
    auto statement = std::make_unique<Stmt>(StmtKind::kFilterBlock, line);
    ExprPtr filter = ParseFilters(nullptr, /*starts_inline=*/true);
    if (filter == nullptr) return nullptr;
    statement->exprs.push_back(std::move(filter));
    return ParseOwnBlock(std::move(statement), "endfilter");
  }

  std::unique_ptr<Stmt> ParseWith(int line) {
    auto statement = std::make_unique<Stmt>(StmtKind::kWith, line);
    while (current().kind != TokenKind::kBlockEnd) {
      if (!statement->exprs.empty() && !ExpectSign(",")) return nullptr;
      ExprPtr target = ParseTarget(false);
      if (target == nullptr || !ExpectSign("=")) return nullptr;
      ExprPtr value = ParseExpression();
      if (value == nullptr) return nullptr;
      statement->exprs.push_back(std::move(target));
      statement->exprs.push_back(std::move(value));
    }
    return ParseOwnBlock(std::move(statement), "endwith");
  }

  std::unique_ptr<Stmt> ParsePrint(int line) {
    auto statement = std::make_unique<Stmt>(StmtKind::kPrint, line);
    while (current().kind != TokenKind::kBlockEnd) {
      if (!statement->exprs.empty() && !ExpectSign(",")) return nullptr;
      ExprPtr value = ParseExpression();
      if (value == nullptr) return nullptr;
      statement->exprs.push_back(std::move(value));
    }
    return statement;
  }

  std::unique_ptr<Stmt> ParseGeneration(int line) {
    program()->marks_generation = true;
    return ParseOwnBlock(std::make_unique<Stmt>(StmtKind::kGeneration, line), "endgeneration",
                         /*is_function=*/true);
  }

  std::unique_ptr<Stmt> ParseBreak(int line) {
    if (loops_ == 0) {
      FailLater("'break' outside loop", line, "SyntaxError");
    }
    return std::make_unique<Stmt>(StmtKind::kBreak, line);
  }

  std::unique_ptr<Stmt> ParseContinue(int line) {
    if (loops_ == 0) {
      FailLater("'continue' not properly in loop", line, "SyntaxError");
    }
    return std::make_unique<Stmt>(StmtKind::kContinue, line);
  }

  int loops_ = 0;  // for statements around the current place, in its function
};

}  // namespace

std::unique_ptr<Program> ParseTemplate(std::string_view source, SyntaxError* error) {
  std::vector<Token> tokens;
  if (!Tokenize(source, &tokens, error)) return nullptr;
  auto program = std::make_unique<Program>();
  StatementParser parser(std::move(tokens), program.get());
  parser.ParseRoot();
  *error = parser.error();
  if (!error->message.empty()) return nullptr;
  if (!BindNames(program.get(), error)) return nullptr;
  return program;
}

}  // namespace coxswain::data::jinja
