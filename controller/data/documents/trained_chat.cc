#include "controller/data/documents/trained_chat.h"

#include <algorithm>
#include <string_view>

#include "common/status_macros.h"
#include "controller/data/documents/document_encoder.h"
#include "controller/data/readers/conversation_parser.h"
#include "controller/data/readers/fields_read.h"
#include "controller/data/readers/record_parser.h"
#include "controller/data/sources/dataset_reader.h"
#include "controller/data/sources/resolve_formats.h"
#include "controller/text/records/record.h"
#include "controller/text/templates/turn_end.h"
#include "controller/text/templates/turn_targets.h"

namespace coxswain::data {
namespace {

bool MayBeConversation(config::DatasetFormat format) {
  return IsPreferenceFormat(format) || format == config::DatasetFormat::kClassification;
}

// Of records that may be texts: whether the first one is a conversation.
bool BeginsWithConversation(const config::DatasetSpec& dataset) {
  const auto reader = DatasetReader::Open(dataset);
  RawRecord raw;
  if (!reader.ok() || !(*reader)->Next(&raw).value_or(false)) return false;
  const absl::StatusOr<Record> record = RecordParser(dataset).Parse(raw.json);
  return record.ok() && !ConversationsOf(*record).empty();
}

bool TrainsConversations(const config::JobSpec& job) {
  return std::any_of(job.datasets.begin(), job.datasets.end(),
                     [&](const config::DatasetSpec& dataset) {
                       config::DatasetSpec known = dataset;
                       const auto format = FormatOf(dataset, job.on_bad_record);
                       if (format.ok()) known.format = *format;
                       if (known.format == config::DatasetFormat::kAuto)
                         return job.chat_template != "auto";
                       if (MayBeConversation(known.format)) return BeginsWithConversation(known);
                       return UsesChatTemplate(known);
                     });
}

// The end-of-turn token of a rendered answer.
std::string EndOf(const ConversationTemplate& chat_template) {
  ChatRecord record;
  record.messages = {TextMessage("user", "a"), TextMessage("assistant", "b"),
                     TextMessage("user", "c"), TextMessage("assistant", "d")};
  const auto texts = FindTargets(chat_template, {.roles = {"assistant"}}, record);
  if (!texts.ok() || texts->empty() || texts->front().targets.empty()) return "";
  const MarkedText& text = texts->front();
  const ByteRange& first = text.targets.front();
  const std::string_view turn =
      std::string_view(text.text).substr(first.begin, first.end - first.begin);
  const Markers& markers = chat_template.markers();
  return std::string(TokenAtEnd(turn.substr(0, EndOfLastToken(turn, markers)), markers));
}

}  // namespace

absl::StatusOr<TrainedChat> TrainedChatOf(const config::JobSpec& job) {
  TrainedChat trained;
  if (!TrainsConversations(job)) return trained;
  ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(job.model_path, job.added_tokens));
  const TemplateTokens tokens = TokensOf(*tokenizer, job.model_path);
  ASSIGN_OR_RETURN(const ConversationTemplate chat_template,
                   ConversationTemplate::Create(job, tokens));
  if (ResolvedTemplateName(job, tokens) != "tokenizer_default" &&
      chat_template.source() != tokens.own_template) {
    trained.chat_template = chat_template.source();
  }
  const std::string end = EndOf(chat_template);
  if (const auto id = tokenizer->TokenToId(end); !end.empty() && id) trained.ends.push_back(*id);
  return trained;
}

}  // namespace coxswain::data
