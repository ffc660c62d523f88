#include "controller/store/event_row.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace coxswain::store {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using nlohmann::json;

void FillFields(const json& data, Message* message);

// JSON has null for what is not finite.
double Real(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

// One element of a repeated field, or a singular field; a value of another type is passed over.
void FillField(const json& value, const FieldDescriptor* field, Message* message) {
  const Reflection* r = message->GetReflection();
  const bool add = field->is_repeated();
  const auto type = field->cpp_type();
  if (type == FieldDescriptor::CPPTYPE_MESSAGE) {
    FillFields(value, add ? r->AddMessage(message, field) : r->MutableMessage(message, field));
  } else if (type == FieldDescriptor::CPPTYPE_STRING && value.is_string()) {
    add ? r->AddString(message, field, value) : r->SetString(message, field, value);
  } else if (type == FieldDescriptor::CPPTYPE_DOUBLE && (value.is_number() || value.is_null())) {
    add ? r->AddDouble(message, field, Real(value)) : r->SetDouble(message, field, Real(value));
  } else if (type == FieldDescriptor::CPPTYPE_BOOL && value.is_boolean()) {
    add ? r->AddBool(message, field, value) : r->SetBool(message, field, value);
  } else if (type == FieldDescriptor::CPPTYPE_INT64 && value.is_number_integer()) {
    add ? r->AddInt64(message, field, value) : r->SetInt64(message, field, value);
  } else if (type == FieldDescriptor::CPPTYPE_UINT64 && value.is_number_integer()) {
    add ? r->AddUInt64(message, field, value) : r->SetUInt64(message, field, value);
  } else if (type == FieldDescriptor::CPPTYPE_INT32 && value.is_number_integer()) {
    add ? r->AddInt32(message, field, value) : r->SetInt32(message, field, value);
  }
}

// The fields of `message` from the values of their names.
void FillFields(const json& data, Message* message) {
  if (!data.is_object()) return;
  const auto* type = message->GetDescriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    const auto value = data.find(field->name());
    if (value == data.end() || field->is_repeated() != value->is_array()) continue;
    if (field->is_repeated()) {
      for (const json& element : *value) FillField(element, field, message);
    } else {
      FillField(*value, field, message);
    }
  }
}

// `detail` of an event that a release without it wrote, from data_json, whose keys are the names of
// the fields.
void ReadDetail(v1::JobEvent* event) {
  const json data = json::parse(event->data_json(), nullptr, /*allow_exceptions=*/false);
  if (!data.is_object() || data.empty()) return;
  const auto* detail = v1::JobEvent::descriptor()->FindOneofByName("detail");
  for (int i = 0; i < detail->field_count(); ++i) {
    const FieldDescriptor* field = detail->field(i);
    if (field->message_type()->name() != event->type()) continue;
    FillFields(data, event->GetReflection()->MutableMessage(event, field));
  }
  if (event->has_data_prepared()) {
    FillFields(data, event->mutable_data_prepared()->mutable_data());
  }
}

}  // namespace

v1::JobEvent ReadEvent(int64_t id, const std::string& proto, const std::string& job,
                       const std::string& path) {
  v1::JobEvent event;
  if (!event.ParseFromString(proto)) {
    event.Clear();
    event.set_job(job);
    event.set_type("Unreadable");
    event.set_message(absl::StrCat("event ", id, " cannot be read: its row in ", path,
                                   " holds no valid record of an event"));
  }
  if (!event.data_json().empty()) ReadDetail(&event);
  event.set_id(id);
  return event;
}

}  // namespace coxswain::store
