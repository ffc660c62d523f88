#include "controller/text/jinja/chat_template.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/text/jinja/values/containers.h"

namespace coxswain::data::jinja {
namespace {

absl::Status WrongType(const Template& chat_template, std::string_view what,
                       std::string_view wanted, const Value& value) {
  return Refuse(chat_template.name(),
                {"TypeError",
                 absl::StrCat(std::string(what), " should be ", std::string(wanted), ", got ",
                              std::string(TypeName(value))),
                 0});
}

bool IsListOfDicts(const Value& value) {
  if (!value.is(Kind::kList)) return false;
  for (const Value& item : value.list().items) {
    if (!item.is(Kind::kDict)) return false;
  }
  return true;
}

// Source: transformers 5.23, chat_template_utils.py, _alias_reasoning_fields.
Value WithReasoningNames(const Value& message) {
  const Dict& dict = message.dict();
  const Value* reasoning = nullptr;
  for (const std::string_view name : {"reasoning_content", "thinking", "reasoning"}) {
    const Value* found = dict.Find(name);
    if (found == nullptr || found->is(Kind::kNone)) continue;
    reasoning = found;
    break;
  }
  if (reasoning == nullptr) return message;
  auto aliased = std::make_unique<Dict>();
  aliased->Set(Value::Text("thinking"), *reasoning);
  for (const auto& [key, value] : dict.entries()) aliased->Set(key, value);
  aliased->Set(Value::Text("reasoning_content"), *reasoning);
  return MakeDict(std::move(aliased));
}

}  // namespace

absl::StatusOr<Rendering> RenderChat(const Template& chat_template,
                                     const Conversation& conversation, const SpecialTokens& tokens,
                                     const Clock& clock, const Limits& limits) {
  if (!IsListOfDicts(conversation.messages)) {
    return WrongType(chat_template, "messages", "a list of objects", conversation.messages);
  }
  for (const auto& [name, value] :
       {std::pair("tools", &conversation.tools), std::pair("documents", &conversation.documents)}) {
    if (value->is(Kind::kNone) || IsListOfDicts(*value)) continue;
    return WrongType(chat_template, name, "null or a list of objects", *value);
  }
  if (!conversation.kwargs.is(Kind::kNone) && !conversation.kwargs.is(Kind::kDict)) {
    return WrongType(chat_template, "kwargs", "null or an object", conversation.kwargs);
  }
  auto variables = std::make_unique<Dict>();
  const auto set = [&](const char* name, const Value& value) {
    variables->Set(Value::Text(name), value);
  };
  std::vector<Value> messages;
  messages.reserve(conversation.messages.list().items.size());
  for (const Value& message : conversation.messages.list().items) {
    messages.push_back(WithReasoningNames(message));
  }
  for (const auto& [name, token] :
       {std::pair("bos_token", &tokens.bos), std::pair("eos_token", &tokens.eos),
        std::pair("pad_token", &tokens.pad), std::pair("unk_token", &tokens.unk)}) {
    if (token->has_value()) set(name, Value::Text(**token));
  }
  set("messages", MakeList(std::move(messages)));
  set("tools", conversation.tools);
  set("documents", conversation.documents);
  set("add_generation_prompt", Value::Bool(conversation.add_generation_prompt));
  if (conversation.kwargs.is(Kind::kDict)) {
    for (const auto& [name, value] : conversation.kwargs.dict().entries()) {
      variables->Set(name, value);
    }
  }
  return chat_template.Render(MakeDict(std::move(variables)), clock, limits);
}

}  // namespace coxswain::data::jinja
