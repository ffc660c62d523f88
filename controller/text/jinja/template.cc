#include "controller/text/jinja/template.h"

#include <charconv>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/text/jinja/interpreter.h"
#include "controller/text/jinja/syntax/ast.h"
#include "controller/text/jinja/syntax/parser.h"
#include "controller/text/jinja/values/unicode.h"

namespace coxswain::data::jinja {
namespace {

// Line, kind and message, with line feeds between them.
constexpr char kPayload[] = "coxswain.jinja.refusal";

}  // namespace

absl::Status Refuse(const std::string& name, const Refusal& refusal) {
  const bool own_words = refusal.kind == kTemplateError;
  absl::Status status = absl::InvalidArgumentError(
      own_words ? refusal.message
                : absl::StrCat(name, ":", refusal.line, ": ", refusal.kind, ": ", refusal.message));
  status.SetPayload(
      kPayload, absl::Cord(absl::StrCat(refusal.line, "\n", refusal.kind, "\n", refusal.message)));
  return status;
}

std::optional<Refusal> RefusalOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayload);
  if (!payload.has_value()) return std::nullopt;
  const std::string text(*payload);
  const size_t line_end = text.find('\n');
  const size_t kind_end = text.find('\n', line_end + 1);
  Refusal refusal;
  std::from_chars(text.data(), text.data() + line_end, refusal.line);
  refusal.kind = text.substr(line_end + 1, kind_end - line_end - 1);
  refusal.message = text.substr(kind_end + 1);
  return refusal;
}

Template::Template(std::string name, std::unique_ptr<const Program> program)
    : name_(std::move(name)),
      program_(std::move(program)),
      marks_generation_(program_->marks_generation) {}

Template::~Template() = default;

absl::StatusOr<std::shared_ptr<const Template>> Template::Parse(const std::string& source,
                                                                std::string name) {
  if (!IsUtf8(source)) return Refuse(name, {"UnicodeDecodeError", "the text is not UTF-8", 1});
  SyntaxError error;
  std::unique_ptr<Program> program = ParseTemplate(source, &error);
  if (program == nullptr) {
    return Refuse(name, {error.kind, error.message, error.line});
  }
  return std::shared_ptr<const Template>(new Template(std::move(name), std::move(program)));
}

absl::StatusOr<Rendering> Template::Render(const Value& variables, const Clock& clock,
                                           const Limits& limits) const {
  Interpreter interpreter(*program_, clock, limits);
  Rendering rendering;
  if (interpreter.Run(variables, &rendering)) return rendering;
  return Refuse(name_, {interpreter.failure().kind, interpreter.failure().message,
                        interpreter.failure_line()});
}

}  // namespace coxswain::data::jinja
