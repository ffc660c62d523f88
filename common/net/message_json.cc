#include "common/net/message_json.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cctype>
#include <string>

#include "common/files/hash.h"
#include "common/format.h"

namespace coxswain {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Json = nlohmann::ordered_json;

// "JobState" -> "JOB_STATE_".
std::string EnumPrefix(const std::string& type) {
  std::string prefix;
  for (const char c : type) {
    if (std::isupper(static_cast<unsigned char>(c)) && !prefix.empty()) prefix += '_';
    prefix += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return prefix + "_";
}

Json EnumJson(const google::protobuf::EnumValueDescriptor& value) {
  const std::string prefix = EnumPrefix(value.type()->name());
  const std::string& name = value.name();
  return name.compare(0, prefix.size(), prefix) == 0 ? name.substr(prefix.size()) : name;
}

// One element of a repeated field, or (index < 0) a singular field.
Json ValueJson(const Message& message, const FieldDescriptor* field, int index) {
  const Reflection* r = message.GetReflection();
  const bool one = index < 0;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return one ? r->GetInt32(message, field) : r->GetRepeatedInt32(message, field, index);
    case FieldDescriptor::CPPTYPE_INT64:
      return one ? r->GetInt64(message, field) : r->GetRepeatedInt64(message, field, index);
    case FieldDescriptor::CPPTYPE_UINT32:
      return one ? r->GetUInt32(message, field) : r->GetRepeatedUInt32(message, field, index);
    case FieldDescriptor::CPPTYPE_UINT64:
      return one ? r->GetUInt64(message, field) : r->GetRepeatedUInt64(message, field, index);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return one ? r->GetDouble(message, field) : r->GetRepeatedDouble(message, field, index);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return one ? r->GetFloat(message, field) : r->GetRepeatedFloat(message, field, index);
    case FieldDescriptor::CPPTYPE_BOOL:
      return one ? r->GetBool(message, field) : r->GetRepeatedBool(message, field, index);
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumJson(one ? *r->GetEnum(message, field)
                          : *r->GetRepeatedEnum(message, field, index));
    case FieldDescriptor::CPPTYPE_STRING: {
      const std::string text =
          one ? r->GetString(message, field) : r->GetRepeatedString(message, field, index);
      return field->type() == FieldDescriptor::TYPE_BYTES ? ToHex(text) : text;
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return MessageJson(one ? r->GetMessage(message, field)
                             : r->GetRepeatedMessage(message, field, index));
  }
  return nullptr;
}

Json MapJson(const Message& message, const FieldDescriptor* field) {
  // std::map-backed nlohmann::json sorts the keys; protobuf's own order is random.
  nlohmann::json sorted = nlohmann::json::object();
  const Reflection* r = message.GetReflection();
  for (int i = 0; i < r->FieldSize(message, field); ++i) {
    const Message& entry = r->GetRepeatedMessage(message, field, i);
    const auto* type = entry.GetDescriptor();
    const Json key = ValueJson(entry, type->field(0), -1);
    sorted[key.is_string() ? key.get<std::string>() : key.dump()] =
        ValueJson(entry, type->field(1), -1);
  }
  return Json(sorted);
}

bool EndsWith(const std::string& text, const std::string& ending) {
  return text.size() > ending.size() &&
         text.compare(text.size() - ending.size(), ending.size(), ending) == 0;
}

void AddField(const Message& message, const FieldDescriptor* field, Json* out) {
  const std::string& name = field->name();
  if (field->is_map()) {
    (*out)[name] = MapJson(message, field);
  } else if (field->is_repeated()) {
    Json list = Json::array();
    const int size = message.GetReflection()->FieldSize(message, field);
    for (int i = 0; i < size; ++i) list.push_back(ValueJson(message, field, i));
    (*out)[name] = std::move(list);
  } else if (EndsWith(name, "_unix_ms")) {
    const int64_t time = message.GetReflection()->GetInt64(message, field);
    (*out)[name.substr(0, name.size() - 8)] = time == 0 ? Json(nullptr) : Json(FormatTime(time));
  } else if (EndsWith(name, "_json")) {
    const std::string text = message.GetReflection()->GetString(message, field);
    const Json parsed = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    (*out)[name.substr(0, name.size() - 5)] = parsed.is_discarded() ? Json(nullptr) : parsed;
  } else {
    const bool unset = field->has_presence() && !message.GetReflection()->HasField(message, field);
    (*out)[name] = unset ? Json(nullptr) : ValueJson(message, field, -1);
  }
}

}  // namespace

Json MessageJson(const Message& message) {
  Json out = Json::object();
  const auto* type = message.GetDescriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    const bool of_oneof = field->real_containing_oneof() != nullptr;
    if (of_oneof && !message.GetReflection()->HasField(message, field)) continue;
    AddField(message, field, &out);
  }
  return out;
}

}  // namespace coxswain
