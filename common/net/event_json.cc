#include "common/net/event_json.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <utility>

#include "common/net/message_json.h"

namespace coxswain {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using nlohmann::json;

// The member of `detail` that is set; null: none.
const FieldDescriptor* DetailField(const v1::JobEvent& event) {
  const auto* type = v1::JobEvent::descriptor();
  return event.GetReflection()->GetOneofFieldDescriptor(event, type->FindOneofByName("detail"));
}

json DetailJson(const Message& detail) {
  json out(MessageJson(detail));
  const auto* type = detail.GetDescriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    const bool unset = field->has_presence() && !detail.GetReflection()->HasField(detail, field);
    if (unset && field->message_type() == nullptr) out.erase(field->name());
  }
  return out;
}

}  // namespace

json EventData(const v1::JobEvent& event) {
  if (!event.data_json().empty()) {
    json data = json::parse(event.data_json(), nullptr, /*allow_exceptions=*/false);
    return data.is_discarded() ? json(nullptr) : data;
  }
  const FieldDescriptor* field = DetailField(event);
  if (field == nullptr) return json::object();
  json data = DetailJson(event.GetReflection()->GetMessage(event, field));
  if (event.has_data_prepared()) {  // what was found stands beside total_steps
    data.erase("data");
    data.update(json(MessageJson(event.data_prepared().data())));
  }
  if (event.has_state_changed() && event.state_changed().workers().empty()) data.erase("workers");
  if (event.has_step_done() && !event.step_done().has_experts()) data.erase("experts");
  const bool pairs = event.step_done().has_preference() || event.eval_done().has_preference();
  if ((event.has_step_done() || event.has_eval_done()) && !pairs) data.erase("preference");
  if (event.has_exported() && event.exported().replaced().empty()) data.erase("replaced");
  if (event.has_exported() && event.exported().verifications().empty()) {
    data.erase("verifications");
  }
  return data;
}

nlohmann::ordered_json EventJson(const v1::JobEvent& event) {
  nlohmann::ordered_json out = MessageJson(event);
  if (const FieldDescriptor* detail = DetailField(event)) out.erase(detail->name());
  out["data"] = nlohmann::ordered_json(EventData(event));
  return out;
}

}  // namespace coxswain
