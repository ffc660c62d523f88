// A chat template: parsed once, rendered often.
//
//   ASSIGN_OR_RETURN(const auto parsed, Template::Parse(source, "chat_template.jinja"));
//   ASSIGN_OR_RETURN(const Rendering rendering, parsed->Render(variables, {}));
#ifndef COXSWAIN_CONTROLLER_DATA_JINJA_TEMPLATE_H_
#define COXSWAIN_CONTROLLER_DATA_JINJA_TEMPLATE_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "controller/data/jinja/limits.h"
#include "controller/data/jinja/rendering.h"
#include "controller/data/jinja/value.h"

namespace coxswain::data::jinja {

struct Program;

// Why a template did not render, as Python would have it.
struct Refusal {
  std::string kind;     // TemplateError, TypeError, UndefinedError, TemplateSyntaxError, ...
  std::string message;  // without name and line; of a TemplateError the template's own words
  int line = 0;
};
// `name` is the template's.
absl::Status Refuse(const std::string& name, const Refusal& refusal);
// Of a status that Parse or Render returned; nothing: of another one, or no error.
std::optional<Refusal> RefusalOf(const absl::Status& status);
// The kind of what a template refuses by raise_exception.
inline constexpr char kTemplateError[] = "TemplateError";

// Immutable: threads may render it at the same time, each with variables of its own.
class Template {
 public:
  // Errors: InvalidArgument with `name`, the line, and what is wrong or not supported.
  static absl::StatusOr<std::shared_ptr<const Template>> Parse(const std::string& source,
                                                               std::string name);
  ~Template();

  // `variables` is a dict. Errors: InvalidArgument, with RefusalOf; where the template itself
  // refuses (raise_exception), the message is exactly the template's.
  absl::StatusOr<Rendering> Render(const Value& variables, const Clock& clock,
                                   const Limits& limits) const;

  const std::string& name() const { return name_; }
  // A mark {% generation %} stands somewhere in it.
  bool marks_generation() const { return marks_generation_; }

 private:
  Template(std::string name, std::unique_ptr<const Program> program);

  const std::string name_;
  const std::unique_ptr<const Program> program_;
  const bool marks_generation_;
};

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_DATA_JINJA_TEMPLATE_H_
