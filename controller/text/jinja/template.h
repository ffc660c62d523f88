// A chat template: parsed once, rendered often.
//
//   ASSIGN_OR_RETURN(const auto parsed, Template::Parse(source, "chat_template.jinja"));
//   ASSIGN_OR_RETURN(const Rendering rendering, parsed->Render(variables, {}));
#ifndef COXSWAIN_CONTROLLER_TEXT_JINJA_TEMPLATE_H_
#define COXSWAIN_CONTROLLER_TEXT_JINJA_TEMPLATE_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "controller/text/jinja/rendering.h"
#include "controller/text/jinja/values/limits.h"
#include "controller/text/jinja/values/value.h"

namespace coxswain::data::jinja {

struct Program;

// Why a template did not render, in Python's terms.
struct Refusal {
  std::string kind;     // TemplateError, TypeError, UndefinedError, TemplateSyntaxError, ...
  std::string message;  // without name and line; for a TemplateError the template's own words
  int line = 0;
};
// `name`: name of the template.
absl::Status Refuse(const std::string& name, const Refusal& refusal);
// The refusal in a status of Parse or Render. Nothing: the status is another error, or OK.
std::optional<Refusal> RefusalOf(const absl::Status& status);
// The kind of a refusal by raise_exception.
inline constexpr char kTemplateError[] = "TemplateError";

// Immutable: threads may render it at the same time, each with its own variables.
class Template {
 public:
  // InvalidArgument names `name`, the line, and the error or the unsupported feature.
  static absl::StatusOr<std::shared_ptr<const Template>> Parse(const std::string& source,
                                                               std::string name);
  ~Template();

  // `variables` is a dict. Errors: InvalidArgument, readable with RefusalOf. If the template itself
  // refuses (raise_exception), the message is exactly that of the template.
  absl::StatusOr<Rendering> Render(const Value& variables, const Clock& clock,
                                   const Limits& limits) const;

  const std::string& name() const { return name_; }
  // True when the template contains {% generation %}.
  bool marks_generation() const { return marks_generation_; }

 private:
  Template(std::string name, std::unique_ptr<const Program> program);

  const std::string name_;
  const std::unique_ptr<const Program> program_;
  const bool marks_generation_;
};

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_TEXT_JINJA_TEMPLATE_H_
