// Splits template text into tokens and applies white space control.
#ifndef COXSWAIN_CONTROLLER_TEXT_JINJA_SYNTAX_LEXER_H_
#define COXSWAIN_CONTROLLER_TEXT_JINJA_SYNTAX_LEXER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace coxswain::data::jinja {

enum class TokenKind : uint8_t {
  kData,
  kBlockBegin,
  kBlockEnd,
  kVariableBegin,
  kVariableEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind;
  int line;
  std::string text;  // data and strings after unescaping; digits without underscores
};

// The token for messages: as it stands in the template, or "end of template".
std::string Describe(const Token& token);

// A syntax error of a template, with its line and Python's exception type.
struct SyntaxError {
  int line = 0;
  std::string message;
  std::string kind = "TemplateSyntaxError";
};

// Gives all tokens, kEnd last; or false with *error. trim_blocks and lstrip_blocks are on. A line
// feed at the end of the source is dropped. All line ends become \n.
bool Tokenize(std::string_view source, std::vector<Token>* tokens, SyntaxError* error);

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_TEXT_JINJA_SYNTAX_LEXER_H_
