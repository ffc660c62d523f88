// A chat template with the tokens of one tokenizer. It turns a conversation into text.
#ifndef COXSWAIN_CONTROLLER_TEXT_TEMPLATES_CONVERSATION_TEMPLATE_H_
#define COXSWAIN_CONTROLLER_TEXT_TEMPLATES_CONVERSATION_TEMPLATE_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/text/jinja/chat_template.h"
#include "controller/text/records/record.h"
#include "controller/text/templates/rendering_budget.h"
#include "controller/text/templates/segment.h"

namespace coxswain::data {

// Immutable; threads share it.
class ConversationTemplate {
 public:
  // The template that `job.chat_template` names: auto, tokenizer_default, a name or a file.
  // InvalidArgument: the model has no template, the file is no template (names the line), or the
  // tokenizer lacks a token that a named template writes. NotFound: no such file.
  static absl::StatusOr<ConversationTemplate> Create(const config::JobSpec& job,
                                                     const TemplateTokens& tokens);
  // The model's own template. `tokens.own_template` must not be empty.
  static absl::StatusOr<ConversationTemplate> OwnOf(const TemplateTokens& tokens);

  // Renders the first messages of a record, with the record's tools and variables. With `prompt`
  // the text continues to the beginning of an answer. Arguments of tool calls are values. If the
  // template refuses values, or prints them in Python's form, they are given as the text of the
  // record. InvalidArgument, without path and line: the template refuses. FailedPrecondition: all
  // renderings together exceed the RenderingBudget.
  absl::StatusOr<jinja::Rendering> Render(std::span<const Message> messages,
                                          const ChatRecord& record, bool prompt) const;

  // True when the template itself marks assistant turns ({% generation %}) for such a record.
  bool MarksTurns(const ChatRecord& record) const;
  // True when the template shows where an answer begins (add_generation_prompt).
  bool has_prompt() const { return source_.find("add_generation_prompt") != std::string::npos; }
  const std::string& name() const { return name_; }      // for people
  const std::string& source() const { return source_; }  // text on which its renderings depend
  // Tokens that the template writes and that content must not forge, and the end-of-text token.
  const std::vector<std::string>& markers() const { return markers_; }
  // Tokens with which the model ends its answers.
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
  // Shared by this template and its copies: the encoder of one dataset has one budget.
  std::shared_ptr<RenderingBudget> budget_ = std::make_shared<RenderingBudget>();
};

// The name to which `auto` resolves: tokenizer_default if the model has a template, else chatml.
std::string ResolvedTemplateName(const config::JobSpec& job, const TemplateTokens& tokens);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TEMPLATES_CONVERSATION_TEMPLATE_H_
