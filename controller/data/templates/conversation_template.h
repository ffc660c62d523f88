// A chat template with the tokens of one tokenizer: conversation -> text.
#ifndef COXSWAIN_CONTROLLER_DATA_TEMPLATES_CONVERSATION_TEMPLATE_H_
#define COXSWAIN_CONTROLLER_DATA_TEMPLATES_CONVERSATION_TEMPLATE_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/data/jinja/chat_template.h"
#include "controller/data/readers/record.h"
#include "controller/data/templates/rendering_budget.h"
#include "controller/data/templates/template_tokens.h"

namespace coxswain::data {

// Immutable; threads share it.
class ConversationTemplate {
 public:
  // The template that `job.chat_template` names: auto, tokenizer_default, a name or a file.
  // InvalidArgument: the model has no template of its own, the file is no template (with its line),
  // the tokenizer lacks a token that a named template writes. NotFound: no such file.
  static absl::StatusOr<ConversationTemplate> Create(const config::JobSpec& job,
                                                     const TemplateTokens& tokens);
  // Of the model itself. `tokens.own_template` is not empty.
  static absl::StatusOr<ConversationTemplate> OwnOf(const TemplateTokens& tokens);

  // The first messages of a record, which lends tools and variables; with `prompt` the text goes on
  // to where an answer begins. Arguments of tool calls are values; where the template refuses them,
  // or prints them as Python does, they are the text that the record has. InvalidArgument, without
  // path and line: the template refuses. FailedPrecondition: all its renderings
  // together cost more than RenderingBudget gives.
  absl::StatusOr<jinja::Rendering> Render(std::span<const Message> messages,
                                          const ChatRecord& record, bool prompt) const;

  // Assistant turns are marked by the template itself ({% generation %}), for such a record.
  bool MarksTurns(const ChatRecord& record) const;
  // It tells where an answer begins (add_generation_prompt).
  bool has_prompt() const { return source_.find("add_generation_prompt") != std::string::npos; }
  const std::string& name() const { return name_; }      // for people
  const std::string& source() const { return source_; }  // what its renderings depend on
  // Tokens that the template writes and that content must not forge, and the end-of-text token.
  const std::vector<std::string>& markers() const { return markers_; }
  // Tokens with which the model ends what it says.
  const std::vector<std::string>& ends() const { return ends_; }

 private:
  ConversationTemplate(std::string name, std::string source)
      : name_(std::move(name)), source_(std::move(source)) {}
  static absl::StatusOr<ConversationTemplate> Parse(const std::string& name,
                                                    const std::string& source,
                                                    const TemplateTokens& tokens);
  absl::StatusOr<jinja::Rendering> RenderList(std::vector<jinja::Value> messages,
                                              const ChatRecord& record, bool prompt) const;
  const jinja::Template& TemplateFor(const ChatRecord& record) const;

  std::string name_;
  std::string source_;
  std::shared_ptr<const jinja::Template> template_;
  std::shared_ptr<const jinja::Template> with_tools_;  // null: template_ is
  jinja::SpecialTokens tokens_;
  std::vector<std::string> markers_;
  std::vector<std::string> ends_;
  std::string kwargs_;  // JSON object
  // Of all renderings of this one and its copies: an encoder of one dataset has one.
  std::shared_ptr<RenderingBudget> budget_ = std::make_shared<RenderingBudget>();
};

// The name that `auto` comes to: tokenizer_default where the model has a template, else chatml.
std::string ResolvedTemplateName(const config::JobSpec& job, const TemplateTokens& tokens);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_TEMPLATES_CONVERSATION_TEMPLATE_H_
