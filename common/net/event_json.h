// An event of a job as JSON for programs: `cox events -o json`, `cox dump`.
#ifndef COXSWAIN_COMMON_NET_EVENT_JSON_H_
#define COXSWAIN_COMMON_NET_EVENT_JSON_H_

#include <nlohmann/json.hpp>

#include "coxswain/v1/job_event.pb.h"

namespace coxswain {

// What the event tells beside its message, keys in alphabetical order: every field of `detail` as
// MessageJson has it, but no unset optional one; an empty object without `detail`. Of an event that
// has data_json that value, null when it is no JSON.
nlohmann::json EventData(const v1::JobEvent& event);

// As MessageJson, with EventData as "data" instead of `detail`.
nlohmann::ordered_json EventJson(const v1::JobEvent& event);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_NET_EVENT_JSON_H_
