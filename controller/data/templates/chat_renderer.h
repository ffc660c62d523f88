// Chat templates by name: conversations -> segments. The renderer alone emits special tokens.
#ifndef COXSWAIN_CONTROLLER_DATA_TEMPLATES_CHAT_RENDERER_H_
#define COXSWAIN_CONTROLLER_DATA_TEMPLATES_CHAT_RENDERER_H_

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/data/readers/record.h"
#include "controller/data/templates/segment.h"
#include "controller/data/templates/template_tokens.h"

namespace coxswain::data {

// Renders one conversation. InvalidArgument (without path and line): a bad record.
using ChatRenderer = std::function<absl::StatusOr<std::vector<Segment>>(std::span<const Message>)>;

// `name`: chatml, llama3, mistral, gemma, alpaca. InvalidArgument: another name, Jinja text, or a
// tokenizer without the template's tokens.
absl::StatusOr<ChatRenderer> MakeChatRenderer(const std::string& name,
                                              const TemplateTokens& tokens);

// What every template asks of a conversation: at least one message, no two assistant turns in a
// row, no assistant turn of white space only.
absl::Status CheckConversation(std::span<const Message> messages);

absl::StatusOr<ChatRenderer> MakeChatmlRenderer(const TemplateTokens& tokens);
absl::StatusOr<ChatRenderer> MakeLlama3Renderer(const TemplateTokens& tokens);
absl::StatusOr<ChatRenderer> MakeMistralRenderer(const TemplateTokens& tokens);
absl::StatusOr<ChatRenderer> MakeGemmaRenderer(const TemplateTokens& tokens);
// Conversations of one user and one assistant turn.
absl::StatusOr<ChatRenderer> MakeAlpacaChatRenderer(const TemplateTokens& tokens);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_TEMPLATES_CHAT_RENDERER_H_
