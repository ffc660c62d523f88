// Template text to tokens, white space control included.
#ifndef COXSWAIN_CONTROLLER_DATA_JINJA_LEXER_H_
#define COXSWAIN_CONTROLLER_DATA_JINJA_LEXER_H_

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
  std::string text;  // data and strings as they are meant; digits without underscores
};

// For a person: the token as the template has it, or "end of template".
std::string Describe(const Token& token);

// What is wrong with a template's text, in which line, and Python's kind of it.
struct SyntaxError {
  int line = 0;
  std::string message;
  std::string kind = "TemplateSyntaxError";
};

// All tokens, kEnd last; false with *error. trim_blocks and lstrip_blocks are on, a line feed at
// the end of the source is dropped, all line ends become \n.
bool Tokenize(std::string_view source, std::vector<Token>* tokens, SyntaxError* error);

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_DATA_JINJA_LEXER_H_
