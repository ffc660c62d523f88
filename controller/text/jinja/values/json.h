// Values from JSON, and json.dumps.
#ifndef COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_JSON_H_
#define COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_JSON_H_

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "absl/status/statusor.h"
#include "controller/text/jinja/values/runtime.h"

namespace coxswain::data::jinja {

// Parses as Python's json.loads: keeps the order, takes the last of equal keys, accepts integers of
// any size. Errors: not JSON, with the byte; nested deeper than kMaxValueDepth.
absl::StatusOr<Value> ParseJson(std::string_view text);

// Converts parsed JSON, in which integers beyond 64 bits are floats. Error: nested too deep.
absl::StatusOr<Value> FromJson(const nlohmann::ordered_json& json);

// The filter tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False).
Value ToJson(Runtime& runtime, const Value& self, Arguments& arguments);

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_JSON_H_
