// Converts conversations in the forms of datasets into the messages that chat templates expect.
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_CONVERSATION_PARSER_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_CONVERSATION_PARSER_H_

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/text/records/record.h"

namespace coxswain::data {

// `record` is an object. Messages are {role, content} or, in ShareGPT, {from, value}; `fields`
// names the keys. Content is text, null beside tool calls, or a list of parts {type, text or
// value}. Text parts are joined, `reasoning` becomes reasoning_content, `tool_call` a tool call.
// The roles function_call and observation become the assistant's tool call and a tool's answer.
// Tools are a list or its JSON text; a bare {name, parameters} is wrapped. `train`, `training`,
// `weight`, `loss_weight`, `loss`, `loss_mask` or `loss_scale` of a message says whether it is a
// target. `notes` gets the parts of `record` that cannot be used; it may be null. InvalidArgument
// names the wrong field.
absl::StatusOr<ChatRecord> ParseConversation(const nlohmann::ordered_json& record,
                                             const config::RecordFields& fields,
                                             RecordNotes* notes = nullptr);

// For a prompt and a completion that are lists of messages. Only the completion is trained.
absl::StatusOr<ChatRecord> ParsePromptMessages(const nlohmann::ordered_json& record,
                                               const config::RecordFields& fields,
                                               RecordNotes* notes = nullptr);

// The parts of which the above are made. `where` names the message in errors.
absl::StatusOr<Message> ParseMessage(const nlohmann::ordered_json& message,
                                     const config::RecordFields& fields, const std::string& where,
                                     RecordNotes* notes);
// Adds tools, system text and variables of the template, which stand beside messages in `record`.
absl::Status AddContext(const nlohmann::ordered_json& record, const config::RecordFields& fields,
                        ChatRecord* chat, RecordNotes* notes);

// The key of the record's messages: the one that `fields` names, else messages or conversations.
// Empty: the record has none.
std::string_view MessagesKey(const nlohmann::ordered_json& record,
                             const config::RecordFields& fields);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_CONVERSATION_PARSER_H_
