#include "controller/text/templates/conversation_notes.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "controller/text/jinja/values/containers.h"
#include "controller/text/jinja/values/operators.h"
#include "controller/text/records/record.h"

namespace coxswain::data {
namespace {

bool IsOfName(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Whether a message with a key that no template can know is written with it: `message | tojson`.
bool WritesWholeMessages(const ConversationTemplate& chat_template) {
  constexpr char kKey[] = "coxswain_probe";
  ChatRecord probe;
  for (const char* role : {"user", "assistant"}) {
    probe.messages.push_back(TextMessage(role, "a"));
    auto fields =
        jinja::FromJson(nlohmann::ordered_json{{"role", role}, {"content", "a"}, {kKey, kKey}});
    if (fields.ok()) probe.messages.back().fields = *fields;
  }
  const auto rendered = chat_template.Render(probe.messages, probe, /*prompt=*/false);
  return rendered.ok() && rendered->text.find(kKey) != std::string::npos;
}

bool IsEmpty(const jinja::Value& value) {
  if (value.is_string()) return value.text().empty();
  if (value.is(jinja::Kind::kList)) return value.list().items.empty();
  return value.is(jinja::Kind::kNone) ||
         (value.is(jinja::Kind::kDict) && value.dict().entries().empty());
}

}  // namespace

ConversationNotes::ConversationNotes(const ConversationTemplate& chat_template,
                                     std::vector<std::string> roles)
    : source_(chat_template.source()),
      roles_(std::move(roles)),
      writes_messages_(WritesWholeMessages(chat_template)) {}

bool ConversationNotes::Reads(std::string_view key) const {
  if (writes_messages_) return true;
  for (size_t at = 0; (at = source_.find(key, at)) != std::string::npos; ++at) {
    const size_t end = at + key.size();
    const bool inside =
        (at > 0 && IsOfName(source_[at - 1])) || (end < source_.size() && IsOfName(source_[end]));
    if (!inside) return true;
  }
  return false;
}

bool ConversationNotes::KnowsRole(const std::string& role) const {
  return std::find(std::begin(kRoles), std::end(kRoles), role) != std::end(kRoles) ||
         std::find(roles_.begin(), roles_.end(), role) != roles_.end() ||
         source_.find(absl::StrCat("'", role, "'")) != std::string::npos ||
         source_.find(absl::StrCat("\"", role, "\"")) != std::string::npos;
}

void ConversationNotes::Add(const ChatRecord& record, RecordNotes* notes) const {
  if (notes == nullptr) return;
  for (const Message& message : record.messages) {
    if (!KnowsRole(message.role)) notes->push_back({NoteKind::kUnknownRole, message.role});
    const auto& entries = message.fields.dict().entries();
    if (entries.size() <= 2) continue;  // role and content
    for (const auto& [key, value] : entries) {
      const std::string_view name = key.text();
      if (name == "role" || name == "content" || IsEmpty(value) || Reads(name)) continue;
      notes->push_back({NoteKind::kUnreadKey, std::string(name)});
    }
  }
}

}  // namespace coxswain::data
