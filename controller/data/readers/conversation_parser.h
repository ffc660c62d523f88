// Conversations in the shapes that data sets have them -> messages as chat templates expect them.
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_CONVERSATION_PARSER_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_CONVERSATION_PARSER_H_

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/data/readers/record.h"
#include "controller/data/readers/record_notes.h"

namespace coxswain::data {

// `record` is an object. Messages are {role, content} or, as ShareGPT has them, {from, value};
// `fields` names the keys. Content is text, null beside tool calls, or a list of parts {type, text
// or value}: text parts are joined, `reasoning` becomes reasoning_content, `tool_call` a tool call.
// function_call and observation become the assistant's tool call and a tool's answer. Tools are a
// list or its JSON text; a bare {name, parameters} is wrapped. `train`, `training`, `weight`,
// `loss_weight`, `loss`, `loss_mask` and `loss_scale` of a message say whether it is a target. What
// of `record` cannot be used is added to `notes`, which may be null. InvalidArgument says which
// field is wrong.
absl::StatusOr<ChatRecord> ParseConversation(const nlohmann::ordered_json& record,
                                             const config::RecordFields& fields,
                                             RecordNotes* notes = nullptr);

// A prompt and a completion that are lists of messages: the completion alone is trained.
absl::StatusOr<ChatRecord> ParsePromptMessages(const nlohmann::ordered_json& record,
                                               const config::RecordFields& fields,
                                               RecordNotes* notes = nullptr);

// Roles that every chat template is taken to know.
inline constexpr std::string_view kRoles[] = {"system", "user", "assistant", "tool", "developer"};

// A message of text alone.
Message TextMessage(const std::string& role, const std::string& text);

// The key of the record that holds its messages: the one that `fields` names, else messages or
// conversations; empty: none is there.
std::string_view MessagesKey(const nlohmann::ordered_json& record,
                             const config::RecordFields& fields);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_CONVERSATION_PARSER_H_
