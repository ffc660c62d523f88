#include "controller/data/readers/conversation_parser.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/text/jinja/values/operators.h"

namespace coxswain::data {
namespace {

using Json = nlohmann::ordered_json;

// Beside the arguments of a call, until its message is whole: the text that they came as.
constexpr char kArgumentsText[] = "arguments as text";

absl::Status Bad(const std::string& what) { return absl::InvalidArgumentError(what); }

std::string Article(const Json& value) {
  const std::string name = value.is_number() ? "number" : value.type_name();
  if (name == "null") return name;
  return absl::StrCat(name == "array" || name == "object" ? "an " : "a ", name);
}

// Null for the empty key too: a field that the job does not read.
const Json* Find(const Json& object, const std::string& key) {
  if (key.empty()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

// Names of data sets for the roles of templates, in any case.
// Source: Axolotl's and LLaMA-Factory's documentation of the sharegpt format.
std::string RoleOf(const std::string& name, const config::RecordFields& fields) {
  const auto own = fields.roles.find(name);
  if (own != fields.roles.end()) return own->second;
  const std::string known = absl::AsciiStrToLower(name);
  for (const std::string_view role : kRoles) {
    if (known == role) return known;
  }
  if (known == "human" || known == "prompter") return "user";
  if (known == "gpt" || known == "chatgpt" || known == "bot" || known == "model" || known == "ai") {
    return "assistant";
  }
  if (known == "observation" || known == "function_response" || known == "tool_response") {
    return "tool";
  }
  return name;
}

// JSON text as the value it is; other text as it stands.
Json Parsed(const Json& value) {
  if (!value.is_string()) return value;
  Json parsed = Json::parse(value.get_ref<const std::string&>(), nullptr, false);
  return parsed.is_discarded() ? value : parsed;
}

// Null, no text, an empty list or an empty object, however often it was written as JSON text: what
// stands where a record has none.
bool SaysNothing(const Json& value) {
  if (value.is_null()) return true;
  if (value.is_string()) {
    const std::string text(absl::StripAsciiWhitespace(value.get_ref<const std::string&>()));
    return text.empty() || text == "None";
  }
  return (value.is_array() || value.is_object()) && value.empty();
}

// Whether an object anywhere in the value has a key whose value is null.
bool HasNullProperty(const Json& value) {
  if (!value.is_structured()) return false;
  for (const auto& [key, item] : value.items()) {
    if (HasNullProperty(item) || (value.is_object() && item.is_null())) return true;
  }
  return false;
}

// {name, arguments}, perhaps inside {"function": ...}, as templates expect it.
absl::StatusOr<Json> ToolCall(const Json& call, const std::string& where) {
  Json parsed = Parsed(call);
  if (const Json* function = parsed.is_object() ? Find(parsed, "function") : nullptr) {
    if (function->is_object()) parsed = Json(*function);
  }
  if (!parsed.is_object() || Find(parsed, "name") == nullptr) {
    return Bad(absl::StrCat("field \"", where, "\" is no tool call {\"name\", \"arguments\"}"));
  }
  if (const Json* arguments = Find(parsed, "arguments")) {
    const Json given = *arguments;
    parsed["arguments"] = Parsed(given);
    if (given.is_string() && parsed["arguments"].is_object()) parsed[kArgumentsText] = given;
  }
  return Json{{"type", "function"}, {"function", std::move(parsed)}};
}

// Takes the text of arguments out of the message's calls. Returns the message that has it in place
// of the values, or null where no call came with text.
Json TakeTextForm(Json* message) {
  if (!message->contains("tool_calls")) return Json();
  Json text = *message;
  bool any = false;
  for (size_t i = 0; i < text["tool_calls"].size(); ++i) {
    Json& function = text["tool_calls"][i]["function"];
    const Json* given = Find(function, kArgumentsText);
    if (given == nullptr) continue;
    any = true;
    function["arguments"] = Json(*given);
    function.erase(kArgumentsText);
    (*message)["tool_calls"][i]["function"].erase(kArgumentsText);
  }
  return any ? text : Json();
}

absl::Status AppendCalls(const Json& calls, const std::string& where, Json* message) {
  const Json parsed = Parsed(calls);
  const Json list = parsed.is_array() ? parsed : Json::array({parsed});
  for (const Json& call : list) {
    ASSIGN_OR_RETURN(Json one, ToolCall(call, where));
    if (const Json* id = call.is_object() ? Find(call, "id") : nullptr) one["id"] = *id;
    (*message)["tool_calls"].push_back(std::move(one));
  }
  return absl::OkStatus();
}

// Parts that are all text become one text; templates differ in what else they take.
absl::Status JoinParts(const Json& parts, const std::string& where, Json* message,
                       RecordNotes* notes) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Json& part = parts[i];
    const std::string place = absl::StrCat(where, "[", i, "]");
    if (!part.is_object()) return Bad(absl::StrCat("field \"", place, "\" is ", Article(part)));
    const std::string type = part.value("type", "text");
    const Json* value = Find(part, "text");
    if (value == nullptr) value = Find(part, "value");
    if (value == nullptr || (!value->is_string() && type != "tool_call")) {
      return Bad(absl::StrCat("field \"", place, "\" is a part of type ", type,
                              " without text; only text can be trained on"));
    }
    if (type == "text") {
      text += value->get_ref<const std::string&>();
    } else if (type == "reasoning" || type == "thinking") {
      std::string reasoning = message->value("reasoning_content", "");
      (*message)["reasoning_content"] = reasoning + value->get_ref<const std::string&>();
    } else if (type == "tool_call") {
      RETURN_IF_ERROR(AppendCalls(*value, place, message));
    } else {
      return Bad(absl::StrCat("field \"", place, "\" is a part of type ", type,
                              "; the types are text, reasoning and tool_call"));
    }
    for (const auto& [key, unread] : part.items()) {
      if (key == "type" || key == "text" || key == "value" || unread.is_null()) continue;
      Note(NoteKind::kUnreadField, absl::StrCat("content[].", key), notes);
    }
  }
  (*message)["content"] = std::move(text);
  return absl::OkStatus();
}

// What data sets call it when a message says whether it is trained.
// Source: Axolotl (train, training), OpenAI (weight), ms-swift (loss, loss_scale), verl
// (loss_mask).
constexpr const char* kMarks[] = {"train",     "training", "weight",    "loss_weight",
                                  "loss_mask", "loss",     "loss_scale"};

bool IsMark(std::string_view key) {
  return std::find(std::begin(kMarks), std::end(kMarks), key) != std::end(kMarks);
}

absl::StatusOr<std::optional<bool>> TrainMark(const Json& message, const std::string& where) {
  std::optional<bool> train;
  for (const char* key : kMarks) {
    const Json* mark = Find(message, key);
    if (mark == nullptr || mark->is_null()) continue;
    const double value = mark->is_boolean()  ? (mark->get<bool>() ? 1 : 0)
                         : mark->is_number() ? mark->get<double>()
                                             : -1;
    if (value != 0 && value != 1) {
      return Bad(absl::StrCat("field \"", where, ".", key, "\" is ",
                              mark->dump(-1, ' ', false, Json::error_handler_t::replace),
                              ", but a message is trained (1) or not (0)"));
    }
    if (train && *train != (value == 1)) {
      return Bad(absl::StrCat("field \"", where, ".", key, "\" is ", mark->dump(),
                              ", but another mark of the message says the opposite"));
    }
    train = value == 1;
  }
  return train;
}

struct Keys {
  std::string role, content;
};

// Where a message has neither pair of keys, the first is asked for.
Keys KeysOf(const Json& message, const config::RecordFields& fields) {
  const bool sharegpt = Find(message, "role") == nullptr && Find(message, "from") != nullptr;
  return {.role = !fields.role.empty() ? fields.role
                  : sharegpt           ? "from"
                                       : "role",
          .content = !fields.content.empty() ? fields.content
                     : sharegpt              ? "value"
                                             : "content"};
}

absl::Status AddContent(const Json& content, const std::string& name, const std::string& where,
                        Json* out, RecordNotes* notes) {
  if (name == "function_call" || name == "tool_call") {
    (*out)["role"] = "assistant";
    (*out)["content"] = "";
    return AppendCalls(content, where, out);
  }
  if (content.is_array()) return JoinParts(content, where, out, notes);
  if (!content.is_string() && !content.is_null()) {
    return Bad(absl::StrCat("field \"", where, "\" is ", Article(content), ", not a string"));
  }
  (*out)["content"] = content.is_null() ? Json("") : content;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Message> ParseMessage(const Json& message, const config::RecordFields& fields,
                                     const std::string& where, RecordNotes* notes) {
  if (!message.is_object()) {
    return Bad(absl::StrCat("field \"", where, "\" is ", Article(message), ", not an object"));
  }
  const Keys keys = KeysOf(message, fields);
  const Json* role = Find(message, keys.role);
  if (role == nullptr) {
    return Bad(absl::StrCat("field \"", where, ".", keys.role, "\" is missing"));
  }
  if (!role->is_string()) {
    return Bad(absl::StrCat("field \"", where, ".", keys.role, "\" is ", Article(*role),
                            ", not a string"));
  }
  const std::string name = *role;
  const Json* calls = Find(message, "tool_calls");
  const bool has_calls = calls != nullptr && !SaysNothing(Parsed(*calls));
  const Json* content = Find(message, keys.content);
  if (content == nullptr && !has_calls) {
    return Bad(absl::StrCat("field \"", where, ".", keys.content, "\" is missing"));
  }
  if (content != nullptr && content->is_null() && !has_calls) {
    return Bad(absl::StrCat("field \"", where, ".", keys.content, "\" is null, not a string"));
  }
  Json out = {{"role", RoleOf(name, fields)}};
  RETURN_IF_ERROR(AddContent(content == nullptr ? Json() : *content, name,
                             absl::StrCat(where, ".", keys.content), &out, notes));
  for (const auto& [key, value] : message.items()) {
    if (key == keys.role || key == keys.content || IsMark(key) || value.is_null()) continue;
    if (key == "tool_calls" && has_calls) {
      RETURN_IF_ERROR(AppendCalls(value, absl::StrCat(where, ".tool_calls"), &out));
    } else if (key != "tool_calls") {
      out[key] = value;
    }
  }
  if (has_calls && HasNullProperty(out["tool_calls"])) {
    Note(NoteKind::kNullProperty, "tool_calls", notes);
  }
  Message parsed;
  parsed.role = out["role"];
  parsed.text = out["content"];
  ASSIGN_OR_RETURN(parsed.train, TrainMark(message, where));
  parsed.has_more = out.contains("tool_calls") || out.contains("reasoning_content");
  const Json text = TakeTextForm(&out);
  ASSIGN_OR_RETURN(parsed.fields, jinja::FromJson(out));
  if (!text.is_null()) {
    ASSIGN_OR_RETURN(parsed.text_fields, jinja::FromJson(text));
  }
  return parsed;
}

namespace {

absl::Status AddMessages(const Json& record, const std::string& key,
                         const config::RecordFields& fields, ChatRecord* chat, RecordNotes* notes) {
  const Json* list = Find(record, key);
  if (list == nullptr) return Bad(absl::StrCat("field \"", key, "\" is missing"));
  if (!list->is_array()) {
    return Bad(absl::StrCat("field \"", key, "\" is ", Article(*list), ", not an array"));
  }
  for (size_t i = 0; i < list->size(); ++i) {
    ASSIGN_OR_RETURN(Message message,
                     ParseMessage((*list)[i], fields, absl::StrCat(key, "[", i, "]"), notes));
    chat->messages.push_back(std::move(message));
  }
  return absl::OkStatus();
}

// Bare functions are wrapped as OpenAI's interface has them.
absl::StatusOr<jinja::Value> ParseTools(const Json& field, const std::string& key,
                                        RecordNotes* notes) {
  const Json parsed = Parsed(field);
  if (SaysNothing(parsed)) return jinja::Value::None();
  if (!parsed.is_array()) {
    return Bad(absl::StrCat("field \"", key, "\" is ", Article(parsed),
                            ", not a list of tools or its JSON text"));
  }
  Json tools = Json::array();
  for (const Json& tool : parsed) {
    if (tool.is_null()) continue;
    const bool bare = tool.is_object() && tool.contains("name") && !tool.contains("function");
    tools.push_back(bare ? Json{{"type", "function"}, {"function", tool}} : tool);
  }
  if (HasNullProperty(tools)) Note(NoteKind::kNullProperty, key, notes);
  return jinja::FromJson(tools);
}

// The system text, unless the conversation has one of its own.
absl::Status AddSystem(const Json& system, const std::string& key, ChatRecord* chat,
                       RecordNotes* notes) {
  if (SaysNothing(system)) return absl::OkStatus();
  if (!system.is_string()) {
    return Bad(absl::StrCat("field \"", key, "\" is ", Article(system), ", not a string"));
  }
  if (!chat->messages.empty() && chat->messages[0].role == "system") {
    if (chat->messages[0].text != system) Note(NoteKind::kUnreadField, key, notes);
    return absl::OkStatus();
  }
  chat->messages.insert(chat->messages.begin(), TextMessage("system", system));
  return absl::OkStatus();
}

}  // namespace

absl::Status AddContext(const Json& record, const config::RecordFields& fields, ChatRecord* chat,
                        RecordNotes* notes) {
  if (const Json* tools = Find(record, fields.tools)) {
    ASSIGN_OR_RETURN(chat->tools, ParseTools(*tools, fields.tools, notes));
  }
  if (const Json* system = Find(record, fields.system)) {
    RETURN_IF_ERROR(AddSystem(*system, fields.system, chat, notes));
  }
  const Json* kwargs = Find(record, "chat_template_kwargs");
  if (kwargs == nullptr) return absl::OkStatus();
  const Json parsed = Parsed(*kwargs);
  if (SaysNothing(parsed)) return absl::OkStatus();
  if (!parsed.is_object()) {
    return Bad(
        absl::StrCat("field \"chat_template_kwargs\" is ", Article(parsed), ", not an object"));
  }
  ASSIGN_OR_RETURN(chat->kwargs, jinja::FromJson(parsed));
  return absl::OkStatus();
}

std::string_view MessagesKey(const Json& record, const config::RecordFields& fields) {
  if (!fields.messages.empty() && !record.contains(fields.messages)) return "";
  if (!fields.messages.empty()) return fields.messages;
  for (const char* key : {"messages", "conversations"}) {
    if (record.contains(key)) return key;
  }
  return "";
}

absl::StatusOr<ChatRecord> ParseConversation(const Json& record, const config::RecordFields& fields,
                                             RecordNotes* notes) {
  const std::string key(MessagesKey(record, fields));
  if (key.empty()) {
    return Bad(fields.messages.empty()
                   ? "field \"messages\" (or \"conversations\") is missing"
                   : absl::StrCat("field \"", fields.messages, "\" is missing"));
  }
  ChatRecord chat;
  RETURN_IF_ERROR(AddMessages(record, key, fields, &chat, notes));
  RETURN_IF_ERROR(AddContext(record, fields, &chat, notes));
  return chat;
}

absl::StatusOr<ChatRecord> ParsePromptMessages(const Json& record,
                                               const config::RecordFields& fields,
                                               RecordNotes* notes) {
  ChatRecord chat;
  RETURN_IF_ERROR(AddMessages(record, fields.prompt, fields, &chat, notes));
  for (Message& message : chat.messages) message.train = false;
  RETURN_IF_ERROR(AddMessages(record, fields.completion, fields, &chat, notes));
  RETURN_IF_ERROR(AddContext(record, fields, &chat, notes));
  return chat;
}

}  // namespace coxswain::data
