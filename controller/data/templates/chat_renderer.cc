#include "controller/data/templates/chat_renderer.h"

#include "absl/strings/str_cat.h"
#include "controller/data/templates/strip.h"

namespace coxswain::data {

absl::StatusOr<ChatRenderer> MakeChatRenderer(const std::string& name,
                                              const TemplateTokens& tokens) {
  if (name == "chatml") return MakeChatmlRenderer(tokens);
  if (name == "llama3") return MakeLlama3Renderer(tokens);
  if (name == "mistral") return MakeMistralRenderer(tokens);
  if (name == "gemma") return MakeGemmaRenderer(tokens);
  if (name == "alpaca") return MakeAlpacaChatRenderer(tokens);
  constexpr char kNames[] = "chatml, llama3, mistral, gemma, alpaca";
  if (name.find('{') != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        "chat_template holds Jinja text, which is not supported; name one of ", kNames));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("chat_template \"", name, "\" is not known; it is one of ", kNames));
}

absl::Status CheckConversation(std::span<const Message> messages) {
  if (messages.empty()) return absl::InvalidArgumentError("the conversation has no messages");
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].role != Role::kAssistant) continue;
    if (i > 0 && messages[i - 1].role == Role::kAssistant) {
      return absl::InvalidArgumentError(
          absl::StrCat("messages[", i - 1, "] and messages[", i, "] are both assistant turns"));
    }
    if (Strip(messages[i].content).empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("messages[", i, "] is an empty assistant turn"));
    }
  }
  return absl::OkStatus();
}

}  // namespace coxswain::data
