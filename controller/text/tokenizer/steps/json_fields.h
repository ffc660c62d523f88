// Reads members of a parsed JSON object, with defaults for absent ones.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_JSON_FIELDS_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_JSON_FIELDS_H_

#include <simdjson.h>

#include <optional>
#include <string>
#include <string_view>

namespace coxswain::data {

// The member, unless it is absent or null.
inline std::optional<simdjson::dom::element> FindField(simdjson::dom::element object,
                                                       std::string_view key) {
  simdjson::dom::element value;
  if (object[key].get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
  return value;
}

// The member as T; `absent` if there is no member or it has another type.
template <typename T>
T Field(simdjson::dom::element object, std::string_view key, T absent) {
  T value = absent;
  if (object[key].get(value) != simdjson::SUCCESS) return absent;
  return value;
}

inline std::string TextField(simdjson::dom::element object, std::string_view key) {
  return std::string(Field<std::string_view>(object, key, ""));
}

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_JSON_FIELDS_H_
