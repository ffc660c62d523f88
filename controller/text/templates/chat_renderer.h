// Renders conversations into documents of segments with a chat template. Only the template writes
// special tokens.
#ifndef COXSWAIN_CONTROLLER_TEXT_TEMPLATES_CHAT_RENDERER_H_
#define COXSWAIN_CONTROLLER_TEXT_TEMPLATES_CHAT_RENDERER_H_

#include <functional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/text/records/record.h"
#include "controller/text/templates/conversation_template.h"
#include "controller/text/templates/segment.h"
#include "controller/text/templates/turn_targets.h"

namespace coxswain::data {

// A rendered document, and how its targets were found.
struct RenderedDocument {
  std::vector<Segment> segments;
  TargetRule rule = TargetRule::kFormat;
  TurnCounts turns = {};
};

// Renders one conversation. InvalidArgument (without path and line): a bad record.
using ChatRenderer = std::function<absl::StatusOr<std::vector<RenderedDocument>>(ChatRecord)>;

// A renderer by job.chat_template and the keys beside it. With `special_tokens_count`, the text of
// a record may contain special tokens. Errors as ConversationTemplate::Create.
absl::StatusOr<ChatRenderer> MakeChatRenderer(const config::JobSpec& job,
                                              const TemplateTokens& tokens,
                                              bool special_tokens_count = false);

// The same of classification: all of a conversation, without the beginning of an answer, and all of
// it a target.
absl::StatusOr<ChatRenderer> MakeWholeChatRenderer(const config::JobSpec& job,
                                                   const TemplateTokens& tokens,
                                                   bool special_tokens_count = false);

// Markers of the template, which content must not forge. Tokens that the job adds are allowed in
// content, unless the template writes them around turns.
std::vector<std::string> GuardedMarkers(const ConversationTemplate& chat_template,
                                        const TemplateTokens& tokens);

// Checks that hold for every template: at least one message, no two answers in a row, no answer of
// white space only. A turn with a tool call or reasoning is not empty.
absl::Status CheckConversation(std::span<const Message> messages);

// Cuts the text at targets. A space before a target stays in the target's segment, because
// tokenizers join it with the next token, but it is no target itself.
std::vector<Segment> CutAtTargets(std::string_view text, std::span<const ByteRange> targets);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TEMPLATES_CHAT_RENDERER_H_
