#include "controller/text/templates/conversation_template.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "common/files/read_file.h"
#include "common/status_macros.h"
#include "controller/text/jinja/values/containers.h"
#include "controller/text/jinja/values/operators.h"
#include "controller/text/templates/named_templates.h"

namespace coxswain::data {
namespace {

constexpr char kOwn[] = "tokenizer_default";
constexpr char kNoVariables[] = "{}";

std::optional<std::string> Given(const std::string& token) {
  if (token.empty()) return std::nullopt;
  return token;
}

// Prepared data must not depend on the day: templates that print it print this one, which Llama 3.1
// prints by itself where it is not told another.
jinja::Clock FixedClock() {
  const absl::TimeZone utc = absl::UTCTimeZone();
  return {.now = absl::FromCivil(absl::CivilSecond(2024, 7, 26), utc), .zone = utc};
}

// The variables of the job, with those of the record over them.
absl::StatusOr<jinja::Value> Variables(const std::string& kwargs, const jinja::Value& own) {
  if (kwargs == kNoVariables) return own;
  ASSIGN_OR_RETURN(jinja::Value all, jinja::ParseJson(kwargs));
  if (!own.is(jinja::Kind::kDict)) return all;
  auto merged = std::make_unique<jinja::Dict>();
  for (const auto& [key, value] : all.dict().entries()) merged->Set(key, value);
  for (const auto& [key, value] : own.dict().entries()) merged->Set(key, value);
  return jinja::MakeDict(std::move(merged));
}

}  // namespace

std::string ResolvedTemplateName(const config::JobSpec& job, const TemplateTokens& tokens) {
  if (job.chat_template != "auto") return job.chat_template;
  return tokens.own_template.empty() ? "chatml" : kOwn;
}

absl::StatusOr<ConversationTemplate> ConversationTemplate::Parse(const std::string& name,
                                                                 const std::string& source,
                                                                 const TemplateTokens& tokens) {
  ConversationTemplate made(name, source);
  ASSIGN_OR_RETURN(made.template_, jinja::Template::Parse(source, name));
  made.tokens_ = {.bos = Given(tokens.bos),
                  .eos = Given(tokens.eos.text),
                  .pad = Given(tokens.pad),
                  .unk = Given(tokens.unk)};
  made.markers_ = tokens.special;
  if (!tokens.eos.text.empty()) made.markers_.push_back(tokens.eos.text);
  made.ends_ = tokens.ends;
  made.kwargs_ = kNoVariables;
  return made;
}

absl::StatusOr<ConversationTemplate> ConversationTemplate::OwnOf(const TemplateTokens& tokens) {
  const std::string name = absl::StrCat("the template of ", tokens.tokenizer);
  ASSIGN_OR_RETURN(ConversationTemplate made, Parse(name, tokens.own_template, tokens));
  if (!tokens.own_tool_template.empty()) {
    ASSIGN_OR_RETURN(made.with_tools_, jinja::Template::Parse(tokens.own_tool_template, name));
    absl::StrAppend(&made.source_, tokens.own_tool_template);
  }
  return made;
}

absl::StatusOr<ConversationTemplate> ConversationTemplate::Create(const config::JobSpec& job,
                                                                  const TemplateTokens& tokens) {
  const std::string name = ResolvedTemplateName(job, tokens);
  absl::StatusOr<ConversationTemplate> made = absl::InvalidArgumentError(absl::StrCat(
      "chat_template tokenizer_default: ", tokens.tokenizer,
      " came with no chat template; name one of chatml, llama3, mistral, gemma, alpaca ",
      "or give the path of a Jinja file"));
  if (name == kOwn) {
    if (!tokens.own_template.empty()) made = OwnOf(tokens);
  } else if (const std::string* named = NamedTemplate(name)) {
    const std::string subject = absl::StrCat("chat_template ", name);
    if (name == "alpaca") RETURN_IF_ERROR(tokens.RequireEos(subject).status());
    for (const std::string_view token : TokensOfNamedTemplate(name)) {
      RETURN_IF_ERROR(tokens.Require(token, subject).status());
    }
    made = Parse(subject, *named, tokens);
    for (const std::string_view token : TokensOfNamedTemplate(name)) {
      if (made.ok()) made->markers_.emplace_back(token);
    }
  } else if (name.find('/') == std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("chat_template \"", name, "\" is not known; it is auto, tokenizer_default, ",
                     "chatml, llama3, mistral, gemma, alpaca, or the path of a Jinja file"));
  } else {
    ASSIGN_OR_RETURN(const std::string source, ReadFile(name, kMaxTemplateBytes));
    made = Parse(absl::StrCat("chat_template ", name), source, tokens);
  }
  if (made.ok() && !job.chat_template_kwargs.empty()) made->kwargs_ = job.chat_template_kwargs;
  return made;
}

const jinja::Template& ConversationTemplate::TemplateFor(const ChatRecord& record) const {
  return with_tools_ != nullptr && !record.tools.is(jinja::Kind::kNone) ? *with_tools_ : *template_;
}

bool ConversationTemplate::MarksTurns(const ChatRecord& record) const {
  return TemplateFor(record).marks_generation();
}

// Calls whose arguments stand in the text as Python prints a dict ("{'city': ...").
static bool PrintsArguments(std::string_view text, const jinja::Value& fields) {
  const jinja::Value* calls = fields.dict().Find("tool_calls");
  if (calls == nullptr || !calls->is(jinja::Kind::kList)) return false;
  for (const jinja::Value& call : calls->list().items) {
    const jinja::Value* function = call.dict().Find("function");
    const jinja::Value* arguments = function->dict().Find("arguments");
    if (arguments == nullptr || !arguments->is(jinja::Kind::kDict)) continue;
    const auto& entries = arguments->dict().entries();
    if (entries.begin() == entries.end()) continue;
    const std::string printed =
        absl::StrCat("{'", std::string((*entries.begin()).first.text()), "': ");
    if (text.find(printed) != std::string_view::npos) return true;
  }
  return false;
}

absl::StatusOr<jinja::Rendering> ConversationTemplate::Render(std::span<const Message> messages,
                                                              const ChatRecord& record,
                                                              bool prompt) const {
  std::vector<jinja::Value> list, as_text;
  list.reserve(messages.size());
  for (const Message& message : messages) list.push_back(message.fields);
  const auto has_text = [](const Message& message) {
    return !message.text_fields.is(jinja::Kind::kNone);
  };
  if (!std::any_of(messages.begin(), messages.end(), has_text)) {
    return RenderList(std::move(list), record, prompt);
  }
  bool printed = false;
  const absl::StatusOr<jinja::Rendering> rendered = RenderList(std::move(list), record, prompt);
  for (const Message& message : messages) {
    as_text.push_back(has_text(message) ? message.text_fields : message.fields);
    printed |=
        rendered.ok() && has_text(message) && PrintsArguments(rendered->text, message.fields);
  }
  if (rendered.ok() && !printed) return rendered;
  absl::StatusOr<jinja::Rendering> other = RenderList(std::move(as_text), record, prompt);
  return other.ok() ? other : rendered;
}

absl::StatusOr<jinja::Rendering> ConversationTemplate::RenderList(std::vector<jinja::Value> list,
                                                                  const ChatRecord& record,
                                                                  bool prompt) const {
  jinja::Conversation conversation{.messages = jinja::MakeList(std::move(list)),
                                   .tools = record.tools,
                                   .add_generation_prompt = prompt};
  ASSIGN_OR_RETURN(conversation.kwargs, Variables(kwargs_, record.kwargs));
  static const jinja::Clock clock = FixedClock();
  const auto began = std::chrono::steady_clock::now();
  absl::StatusOr<jinja::Rendering> rendered =
      jinja::RenderChat(TemplateFor(record), conversation, tokens_, clock);
  const int64_t bytes = rendered.ok() ? static_cast<int64_t>(rendered->text.size()) : 0;
  RETURN_IF_ERROR(budget_->Charge(std::chrono::steady_clock::now() - began, bytes));
  const auto refusal = jinja::RefusalOf(rendered.status());
  if (!refusal || refusal->kind != jinja::kTemplateError) return rendered;
  return absl::InvalidArgumentError(absl::StrCat(name_, " refuses it: ", refusal->message));
}

}  // namespace coxswain::data
