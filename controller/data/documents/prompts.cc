#include "controller/data/documents/prompts.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/data/documents/document_encoder.h"
#include "controller/data/documents/record_renderer.h"
#include "controller/data/model_ends.h"
#include "controller/data/readers/record_parser.h"
#include "controller/data/sources/resolve_formats.h"
#include "controller/text/templates/conversation_template.h"
#include "controller/text/templates/named_templates.h"

namespace coxswain::data {
namespace {

using Json = nlohmann::ordered_json;

// The JSON of a record that asks.
std::string RecordOf(const Json& messages) {
  return Json{{"messages", messages}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<std::vector<int32_t>> EncodedConversation(const DocumentEncoder& encoder,
                                                         const std::string& record) {
  RecordParser parser(config::DatasetFormat::kChat, {});
  ASSIGN_OR_RETURN(const Record parsed, parser.Parse(record));
  return encoder.EncodePrompt(std::get<ChatRecord>(parsed));
}

absl::StatusOr<Json> ParseMessages(const std::string& text) {
  Json messages = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (messages.is_array() && !messages.empty()) return messages;
  return absl::InvalidArgumentError(
      "messages is no JSON list of {\"role\": ..., \"content\": ...}");
}

absl::Status At(const absl::Status& status, const std::string& where) {
  return absl::Status(status.code(), absl::StrCat(where, ": ", std::string(status.message())));
}

// The style of a job's prompts: its own, else that of its first dataset.
absl::StatusOr<config::AskingStyle> StyleOfJob(const config::JobSpec& job) {
  if (job.generate.style != config::AskingStyle::kAuto || job.datasets.empty()) {
    return job.generate.style;
  }
  return StyleOf(job.datasets.front(), job.on_bad_record);
}

}  // namespace

absl::StatusOr<config::AskingStyle> StyleOf(config::DatasetSpec dataset,
                                            config::OnBadRecord on_bad_record) {
  using config::AskingStyle;
  using config::DatasetFormat;
  if (dataset.format == DatasetFormat::kAuto) {
    ASSIGN_OR_RETURN(dataset.format, FormatOf(dataset, on_bad_record));
  }
  if (UsesChatTemplate(dataset)) return AskingStyle::kChat;
  switch (dataset.format) {
    case DatasetFormat::kAlpaca:
      return AskingStyle::kAlpaca;
    case DatasetFormat::kCompletion:
    case DatasetFormat::kInputOutput:
      return AskingStyle::kText;
    default:
      return AskingStyle::kAuto;  // prompts that may be messages, tokens that may be anything
  }
}

int64_t PreparedPrompts::longest() const {
  size_t longest = 0;
  for (const std::vector<int32_t>& one : ids) longest = std::max(longest, one.size());
  return static_cast<int64_t>(longest);
}

absl::StatusOr<PreparedPrompts> PreparePrompts(const config::JobSpec& job) {
  PreparedPrompts prepared;
  if (!job.generate.asks()) return prepared;
  ASSIGN_OR_RETURN(prepared.tokenizer, Tokenizer::Load(job.model_path, job.added_tokens));
  const Tokenizer& tokenizer = *prepared.tokenizer;
  const TemplateTokens tokens = TokensOf(tokenizer, job.model_path);
  const bool talks = !job.generate.messages.empty();
  ASSIGN_OR_RETURN(const config::AskingStyle style, StyleOfJob(job));
  const bool untold = style == config::AskingStyle::kAuto && job.chat_template == "auto" &&
                      tokens.own_template.empty();
  const bool alpaca = style == config::AskingStyle::kAlpaca;
  const bool plain = !talks && (untold || alpaca || style == config::AskingStyle::kText);
  std::shared_ptr<const ConversationTemplate> chat;
  if (!plain) {
    ASSIGN_OR_RETURN(ConversationTemplate parsed, ConversationTemplate::Create(job, tokens));
    chat = std::make_shared<const ConversationTemplate>(std::move(parsed));
  }
  ASSIGN_OR_RETURN(const DocumentEncoder encoder,
                   DocumentEncoder::ForPrompts(tokenizer, tokens, std::move(chat)));
  prepared.ends = ModelEnds(job.model_path, tokenizer);
  prepared.texts = talks ? std::vector<std::string>{job.generate.messages} : job.generate.prompts;
  for (const std::string& text : prepared.texts) {
    const std::string where = absl::StrCat("prompt ", prepared.ids.size() + 1);
    Json messages = Json::array({{{"role", "user"}, {"content", text}}});
    if (talks) {
      ASSIGN_OR_RETURN(messages, ParseMessages(text));
    }
    absl::StatusOr<std::vector<int32_t>> ids =
        plain ? encoder.EncodePrompt(alpaca ? AlpacaPrompt(text) : text)
              : EncodedConversation(encoder, RecordOf(messages));
    if (ids.ok() && ids->empty()) ids = absl::InvalidArgumentError("it has no token");
    if (!ids.ok()) return At(ids.status(), where);
    prepared.ids.push_back(*std::move(ids));
  }
  return prepared;
}

}  // namespace coxswain::data
