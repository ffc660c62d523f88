// Conversations -> documents of segments, by a chat template. The template alone writes special
// tokens.
#ifndef COXSWAIN_CONTROLLER_DATA_TEMPLATES_CHAT_RENDERER_H_
#define COXSWAIN_CONTROLLER_DATA_TEMPLATES_CHAT_RENDERER_H_

#include <functional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/data/readers/record.h"
#include "controller/data/templates/conversation_template.h"
#include "controller/data/templates/segment.h"
#include "controller/data/templates/turn_targets.h"

namespace coxswain::data {

// A rendered document, and how its targets were found.
struct RenderedDocument {
  std::vector<Segment> segments;
  TargetRule rule = TargetRule::kFormat;
  TurnCounts turns = {};
};

// Renders one conversation. InvalidArgument (without path and line): a bad record.
using ChatRenderer = std::function<absl::StatusOr<std::vector<RenderedDocument>>(ChatRecord)>;

// Of job.chat_template and the keys beside it. With `special_tokens_count` what a record writes in
// its text may be a special token. Errors as ConversationTemplate::Create.
absl::StatusOr<ChatRenderer> MakeChatRenderer(const config::JobSpec& job,
                                              const TemplateTokens& tokens,
                                              bool special_tokens_count = false);

// What content must not forge: the template's markers. Tokens that the job adds count in content
// too, unless the template writes them around turns.
std::vector<std::string> GuardedMarkers(const ConversationTemplate& chat_template,
                                        const TemplateTokens& tokens);

// What every template asks of a conversation: at least one message, no two answers in a row, no
// answer of white space only; a turn that calls a tool or reasons is no empty one.
absl::Status CheckConversation(std::span<const Message> messages);

// The text cut at targets. A space before a target stays with the target's first token, which
// tokenizers write so, but is none itself.
std::vector<Segment> CutAtTargets(std::string_view text, std::span<const ByteRange> targets);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_TEMPLATES_CHAT_RENDERER_H_
