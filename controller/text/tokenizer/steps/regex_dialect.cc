#include "controller/text/tokenizer/steps/regex_dialect.h"

#include "absl/strings/str_cat.h"

namespace coxswain::data {
namespace {

constexpr std::string_view kWhiteSpace =
    "\\t-\\r "
    "\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}";
constexpr std::string_view kDivergentEscapes = "hHRXKGZvV";

// One pass over the pattern; `in_class` says whether position is inside [...].
class Rewriter {
 public:
  explicit Rewriter(std::string_view pattern) : pattern_(pattern) {}

  absl::StatusOr<std::string> Run() {
    while (position_ < pattern_.size()) {
      const absl::Status status = Step();
      if (!status.ok()) return status;
    }
    return std::move(out_);
  }

 private:
  absl::Status Step() {
    const char c = pattern_[position_];
    if (c == '\\') return Escape();
    if (in_class_) return InClass(c);
    if (c == '[') {
      in_class_ = true;
      Copy(1);
      if (Peek() == '^') Copy(1);
      if (Peek() == ']') Copy(1);
      return absl::OkStatus();
    }
    if (c == '^' || c == '$') return Refuse(absl::StrCat("a bare ", std::string(1, c)));
    const char next = position_ + 1 < pattern_.size() ? pattern_[position_ + 1] : '\0';
    if (c == '}' && next == '+') return Refuse("an interval followed by +");
    Copy(1);
    return absl::OkStatus();
  }

  absl::Status Escape() {
    if (position_ + 1 >= pattern_.size()) return Refuse("a trailing backslash");
    const char name = pattern_[position_ + 1];
    if (kDivergentEscapes.find(name) != std::string_view::npos) {
      return Refuse(absl::StrCat("the escape \\", std::string(1, name)));
    }
    if (name != 's' && name != 'S') {
      Copy(2);
      if (Peek() == '{' && (name == 'p' || name == 'P' || name == 'x')) {
        Copy(pattern_.find('}', position_) - position_ + 1);  // \p{L}, \x{85}
      }
      return absl::OkStatus();
    }
    if (in_class_ && name == 'S') return Refuse("\\S inside a character class");
    position_ += 2;
    if (in_class_) {
      absl::StrAppend(&out_, std::string(kWhiteSpace));
    } else {
      absl::StrAppend(&out_, name == 's' ? "[" : "[^", std::string(kWhiteSpace), "]");
    }
    return absl::OkStatus();
  }

  absl::Status InClass(char c) {
    const char next = position_ + 1 < pattern_.size() ? pattern_[position_ + 1] : '\0';
    if (c == '[') return Refuse("a class inside a class");
    if (c == '&' && next == '&') return Refuse("&& inside a character class");
    if (c == ']') in_class_ = false;
    Copy(1);
    return absl::OkStatus();
  }

  char Peek() const { return position_ < pattern_.size() ? pattern_[position_] : '\0'; }

  void Copy(size_t count) {
    const std::string_view part = pattern_.substr(position_, count);
    out_.append(part);
    position_ += part.size();
  }

  absl::Status Refuse(const std::string& what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("regex '", std::string(pattern_), "' has ", what, " at character ", position_,
                     ", which this tokenizer does not read as Oniguruma does"));
  }

  std::string_view pattern_;
  std::string out_;
  size_t position_ = 0;
  bool in_class_ = false;
};

}  // namespace

absl::StatusOr<std::string> OnigurumaToPcre2(std::string_view pattern) {
  return Rewriter(pattern).Run();
}

}  // namespace coxswain::data
