#include "controller/text/jinja/syntax/lexer.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "controller/text/jinja/syntax/string_literal.h"
#include "controller/text/jinja/values/unicode.h"

namespace coxswain::data::jinja {
namespace {

constexpr std::array<std::string_view, 27> kOperators = {
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]",
    "(",  ")",  "{",  "}",  ">",  "<",  "=", ".", ":", "|", ",", ";", "!"};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0;
}

std::string NormalLineEnds(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text.push_back(source[i]);
    } else {
      text.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

class Lexer {
 public:
  Lexer(std::string_view source, std::vector<Token>* tokens, SyntaxError* error)
      : source_(source), tokens_(tokens), error_(error) {}

  bool Run() {
    while (at_ < source_.size()) {
      if (!Text()) return false;
    }
    Add(TokenKind::kEnd, "");
    return true;
  }

 private:
  std::string_view Rest(size_t from) const { return source_.substr(from); }
  bool Starts(std::string_view text) const { return Rest(at_).substr(0, text.size()) == text; }

  bool Fail(std::string message) {
    *error_ = {line_, std::move(message), "TemplateSyntaxError"};
    return false;
  }

  void Add(TokenKind kind, std::string text) { tokens_->push_back({kind, line_, std::move(text)}); }

  // Moves to `end`, counting lines.
  void MoveTo(size_t end) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    line_starts_ = end > at_ ? source_[end - 1] == '\n' : line_starts_;
    at_ = end;
  }

  void SkipSpace() {
    while (at_ < source_.size()) {
      size_t next = at_;
      if (!IsSpace(NextCodePoint(source_, &next))) return;
      MoveTo(next);
    }
  }

  // The next "{{", "{%" or "{#".
  size_t FindTag() const {
    for (size_t open = source_.find('{', at_); open != std::string_view::npos;
         open = source_.find('{', open + 1)) {
      if (open + 1 < source_.size() &&
          (source_[open + 1] == '{' || source_[open + 1] == '%' || source_[open + 1] == '#')) {
        return open;
      }
    }
    return std::string_view::npos;
  }

  // Data before a tag whose sign is `sign`: '-' strips it; without a sign a block strips the blanks
  // of its own line.
  void AddData(std::string_view text, char sign, bool strips_line) {
    const bool line_starts = line_starts_;
    std::string_view kept = text;
    if (sign == '-') {
      kept = StripRight(text);
    } else if (sign != '+' && strips_line) {
      const size_t feed = text.rfind('\n');
      const size_t begin = feed == std::string_view::npos ? 0 : feed + 1;
      const bool own_line = begin > 0 || line_starts;
      if (own_line && StripLeft(text.substr(begin)).empty()) kept = text.substr(0, begin);
    }
    if (!kept.empty()) Add(TokenKind::kData, std::string(kept));
    MoveTo(at_ + text.size());
  }

  bool Text() {
    const size_t tag = FindTag();
    if (tag == std::string_view::npos) {
      AddData(Rest(at_), '+', false);
      return true;
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    const bool has_sign = sign == '-' || sign == '+';
    AddData(source_.substr(at_, tag - at_), has_sign ? sign : '\0', kind != '{');
    if (size_t end = 0; kind == '%' && MatchTag(tag, "raw", &end)) return Raw(end);
    MoveTo(tag + (has_sign ? 3 : 2));
    if (kind == '#') return Comment();
    Add(kind == '{' ? TokenKind::kVariableBegin : TokenKind::kBlockBegin, "");
    return Inside(kind == '{' ? "}}" : "%}");
  }

  size_t AfterSpace(size_t at) const {
    while (at < source_.size()) {
      size_t next = at;
      if (!IsSpace(NextCodePoint(source_, &next))) break;
      at = next;
    }
    return at;
  }

  // {%[+-] word [-]%} at `begin`; *end is before its "-%}" or "%}".
  bool MatchTag(size_t begin, std::string_view word, size_t* end) const {
    size_t at = begin + 2;
    if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) ++at;
    at = AfterSpace(at);
    if (Rest(at).substr(0, word.size()) != word) return false;
    at = AfterSpace(at + word.size());
    const std::string_view rest = Rest(at);
    const bool closes = rest.substr(0, 2) == "%}" || rest.substr(0, 3) == "-%}";
    const bool keeps = word == "endraw" && rest.substr(0, 3) == "+%}";
    *end = at;
    return closes || keeps;
  }

  bool Raw(size_t close) {
    MoveTo(close);
    if (source_[at_] == '-') {
      MoveTo(at_ + 3);
      SkipSpace();
    } else {
      MoveTo(at_ + 2);
    }
    for (size_t open = source_.find("{%", at_); open != std::string_view::npos;
         open = source_.find("{%", open + 1)) {
      size_t end = 0;
      if (!MatchTag(open, "endraw", &end)) continue;
      AddData(source_.substr(at_, open - at_), source_[open + 2], true);
      MoveTo(end);
      CloseTag("%}");
      return true;
    }
    // jinja2 lets one pass at the very end.
    return at_ >= source_.size() || Fail("Missing end of raw directive");
  }

  bool Comment() {
    const size_t close = source_.find("#}", at_);
    if (close == std::string_view::npos) {
      return at_ >= source_.size() || Fail("Missing end of comment tag");
    }
    const bool has_sign = close > at_ && (source_[close - 1] == '-' || source_[close - 1] == '+');
    MoveTo(has_sign ? close - 1 : close);
    CloseTag("#}");
    return true;
  }

  // At the end of a tag: its sign, itself, and the white space that it takes.
  void CloseTag(std::string_view end) {
    const char sign = source_[at_];
    MoveTo(at_ + end.size() + (sign == '-' || sign == '+' ? 1 : 0));
    if (sign == '-') {
      SkipSpace();
    } else if (sign != '+' && end != "}}" && at_ < source_.size() && source_[at_] == '\n') {
      MoveTo(at_ + 1);
    }
  }

  bool AtEnd(std::string_view end) const {
    if (Starts(end)) return true;
    const bool sign = source_[at_] == '-' || (source_[at_] == '+' && end == "%}");
    return sign && Rest(at_ + 1).substr(0, 2) == end;
  }

  bool Inside(std::string_view end) {
    std::string brackets;  // those that are open, as what closes them
    while (true) {
      SkipSpace();
      if (at_ >= source_.size()) return true;  // the parser tells what is missing
      if (brackets.empty() && AtEnd(end)) {
        Add(end == "}}" ? TokenKind::kVariableEnd : TokenKind::kBlockEnd, "");
        CloseTag(end);
        return true;
      }
      if (!Item(&brackets)) return false;
    }
  }

  bool Item(std::string* brackets) {
    const char c = source_[at_];
    if (IsDigit(c)) return Number();
    if (IsNameStart(c)) return Name();
    if (c == '\'' || c == '"') return Literal(c);
    return Sign(brackets);
  }

  // Digits with single underscores between them; the end of them from `at`.
  size_t Digits(size_t at, std::string_view digits) const {
    while (at < source_.size()) {
      const bool underscore = source_[at] == '_' && at + 1 < source_.size() &&
                              digits.find(source_[at + 1]) != std::string_view::npos;
      if (!underscore && digits.find(source_[at]) == std::string_view::npos) break;
      ++at;
    }
    return at;
  }

  // The end of a float that starts here, or at_.
  size_t FloatEnd() const {
    constexpr std::string_view kDecimal = "0123456789";
    if (at_ > 0 && source_[at_ - 1] == '.') return at_;
    size_t end = Digits(at_, kDecimal);
    bool is_float = false;
    if (end + 1 < source_.size() && source_[end] == '.' && IsDigit(source_[end + 1])) {
      end = Digits(end + 1, kDecimal);
      is_float = true;
    }
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      size_t exponent = end + 1;
      if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) {
        ++exponent;
      }
      if (exponent < source_.size() && IsDigit(source_[exponent])) {
        return Digits(exponent, kDecimal);
      }
    }
    return is_float ? end : at_;
  }

  size_t IntegerEnd() const {
    const char c = source_[at_];
    if (c != '0') return Digits(at_, "0123456789");
    const char base = at_ + 1 < source_.size() ? static_cast<char>(source_[at_ + 1] | 32) : '\0';
    const std::string_view digits = base == 'b'   ? "01"
                                    : base == 'o' ? "01234567"
                                    : base == 'x' ? "0123456789abcdefABCDEF"
                                                  : "";
    if (!digits.empty()) {
      const size_t end = Digits(at_ + 2, digits);
      if (end > at_ + 2) return end;
    }
    return Digits(at_, "0");
  }

  bool Number() {
    size_t end = FloatEnd();
    const TokenKind kind = end > at_ ? TokenKind::kFloat : TokenKind::kInteger;
    if (kind == TokenKind::kInteger) end = IntegerEnd();
    std::string text(source_.substr(at_, end - at_));
    text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
    Add(kind, std::move(text));
    MoveTo(end);
    return true;
  }

  bool Name() {
    size_t end = at_;
    while (end < source_.size()) {
      size_t next = end;
      const char32_t c = NextCodePoint(source_, &next);
      const bool continues =
          c < 0x80 ? IsNameStart(static_cast<char>(c)) || IsDigit(static_cast<char>(c))
                   : IsAlpha(c) || IsNumeric(c);
      if (!continues) break;
      end = next;
    }
    if (end == at_) return Fail("Invalid character in identifier");
    Add(TokenKind::kName, std::string(source_.substr(at_, end - at_)));
    MoveTo(end);
    return true;
  }

  bool Literal(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) return Fail(absl::StrCat("a string has no end"));
    std::string text;
    std::string message;
    if (!Unescape(source_.substr(at_ + 1, end - at_ - 1), &text, &message)) return Fail(message);
    Add(TokenKind::kString, std::move(text));
    MoveTo(end + 1);
    return true;
  }

  bool Sign(std::string* brackets) {
    const auto* found = std::find_if(kOperators.begin(), kOperators.end(),
                                     [&](std::string_view sign) { return Starts(sign); });
    if (found == kOperators.end() || *found == "!") {
      size_t next = at_;
      NextCodePoint(source_, &next);
      return Fail(
          absl::StrCat("unexpected char '", std::string(source_.substr(at_, next - at_)), "'"));
    }
    const char c = found->front();
    if (c == '{' || c == '(' || c == '[') {
      brackets->push_back(c == '{' ? '}' : c == '(' ? ')' : ']');
    } else if (c == '}' || c == ')' || c == ']') {
      if (brackets->empty()) return Fail(absl::StrCat("unexpected '", std::string(1, c), "'"));
      if (brackets->back() != c) {
        return Fail(absl::StrCat("unexpected '", std::string(1, c), "', expected '",
                                 std::string(1, brackets->back()), "'"));
      }
      brackets->pop_back();
    }
    Add(TokenKind::kOperator, std::string(*found));
    MoveTo(at_ + found->size());
    return true;
  }

  const std::string_view source_;
  std::vector<Token>* const tokens_;
  SyntaxError* const error_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;
};

}  // namespace

std::string Describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kData:
      return "template data / text";
    case TokenKind::kBlockBegin:
      return "begin of statement block";
    case TokenKind::kBlockEnd:
      return "end of statement block";
    case TokenKind::kVariableBegin:
      return "begin of print statement";
    case TokenKind::kVariableEnd:
      return "end of print statement";
    case TokenKind::kString:
      return "string";
    case TokenKind::kInteger:
      return "integer";
    case TokenKind::kFloat:
      return "float";
    case TokenKind::kName:
    case TokenKind::kOperator:
      return token.text;
    case TokenKind::kEnd:
      return "end of template";
  }
  return "token";
}

bool Tokenize(std::string_view source, std::vector<Token>* tokens, SyntaxError* error) {
  const std::string text = NormalLineEnds(source);
  return Lexer(text, tokens, error).Run();
}

}  // namespace coxswain::data::jinja
