#include "controller/data/documents/template_sample.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/outside_text.h"
#include "common/status_macros.h"
#include "controller/data/documents/document_encoder.h"
#include "controller/data/readers/conversation_parser.h"
#include "controller/text/templates/turn_counts.h"
#include "controller/text/templates/turn_targets.h"

namespace coxswain::data {
namespace {

ChatRecord Sample(bool with_system) {
  ChatRecord record;
  if (with_system) record.messages.push_back(TextMessage("system", "You are terse."));
  record.messages.push_back(TextMessage("user", "What is 2 + 2?"));
  record.messages.push_back(TextMessage("assistant", "4"));
  record.messages.push_back(TextMessage("user", "And 3 + 3?"));
  record.messages.push_back(TextMessage("assistant", "6"));
  return record;
}

std::string Marked(const MarkedText& text, bool color) {
  std::string out;
  size_t at = 0;
  for (const ByteRange& range : text.targets) {
    absl::StrAppend(&out, text.text.substr(at, range.begin - at), color ? "\x1b[32m" : "⟦",
                    text.text.substr(range.begin, range.end - range.begin),
                    color ? "\x1b[0m" : "⟧");
    at = range.end;
  }
  return absl::StrCat(out, text.text.substr(at));
}

std::string_view RuleOf(const MarkedText& text) {
  return text.rule == TargetRule::kMarks ? "the template marks them ({% generation %})"
                                         : "what each answer adds to the text";
}

}  // namespace

absl::StatusOr<std::string> TemplateSample(const config::JobSpec& job, bool color) {
  ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(job.model_path, job.added_tokens));
  ASSIGN_OR_RETURN(const ConversationTemplate chat_template,
                   ConversationTemplate::Create(job, TokensOf(*tokenizer, job.model_path)));
  const TargetPolicy policy{job.roles_to_train, job.train_on, job.train_on_eos};
  auto texts = FindTargets(chat_template, policy, Sample(/*with_system=*/true));
  if (!texts.ok()) {
    ASSIGN_OR_RETURN(texts, FindTargets(chat_template, policy, Sample(/*with_system=*/false)));
  }
  std::string out =
      absl::StrCat("# ", chat_template.name(), "\n", CleanText(chat_template.source()), "\n\n");
  for (const MarkedText& text : *texts) {
    absl::StrAppend(&out, "# a conversation; targets: ", std::string(RuleOf(text)), "\n",
                    Marked(text, color), "\n");
    for (const std::string& note : TurnNotes(text.turns)) absl::StrAppend(&out, "# ", note, "\n");
  }
  return out;
}

}  // namespace coxswain::data
