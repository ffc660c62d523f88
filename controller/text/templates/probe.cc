#include "controller/text/templates/probe.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "controller/text/jinja/values/containers.h"
#include "controller/text/records/record.h"

namespace coxswain::data {
namespace {

using jinja::Kind;
using jinja::Value;

// U+FDD1: another than the one of ContentGuard.
constexpr std::string_view kOtherWord = "\xEF\xB7\x91";

std::string Changed(std::string_view text) {
  std::string out(kOtherWord);
  bool behind_tag = false;
  for (const char c : text) {
    if (behind_tag && c != '<') out.append(kOtherWord);
    out.push_back(c);
    behind_tag = c == '>';
  }
  return out;
}

bool IsFixed(std::string_view key) {
  return key == "role" || key == "type" || key == "id" || key == "tool_call_id";
}

Value ChangedValue(const Value& value) {
  if (value.is_string()) return Value::Text(Changed(value.text()));
  if (value.is(Kind::kList)) {
    std::vector<Value> items;
    for (const Value& item : value.list().items) items.push_back(ChangedValue(item));
    return jinja::MakeList(std::move(items));
  }
  if (!value.is(Kind::kDict)) return value;
  auto dict = std::make_unique<jinja::Dict>();
  for (const auto& [key, item] : value.dict().entries()) {
    const bool fixed = key.is_string() && IsFixed(key.text());
    dict->Set(key, fixed ? item : ChangedValue(item));
  }
  return jinja::MakeDict(std::move(dict));
}

}  // namespace

Message Probe(const Message& message) {
  Message changed = message;
  changed.fields = ChangedValue(message.fields);
  changed.text_fields = ChangedValue(message.text_fields);
  return changed;
}

Message BareProbe(const Message& message) {
  return TextMessage(message.role, std::string(kOtherWord));
}

}  // namespace coxswain::data
