// Reads fields of a JSON object by type. Every error is InvalidArgument and names the field and its
// actual content.
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_TYPED_FIELDS_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_TYPED_FIELDS_H_

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <simdjson.h>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"

namespace coxswain::data {

// "an array", "null".
const char* TypeName(simdjson::dom::element value);

absl::StatusOr<std::string> TextField(simdjson::dom::object from, const std::string& field);
// Empty when the field is absent or null.
absl::StatusOr<std::string> OptionalText(simdjson::dom::object from, const std::string& field);
absl::StatusOr<simdjson::dom::array> ListField(simdjson::dom::object from,
                                               const std::string& field);
// Integers of a list; true and false count as 1 and 0. `what` names them in errors.
absl::StatusOr<std::vector<int64_t>> IntegersField(simdjson::dom::object from,
                                                   const std::string& field, const char* what);
// Nothing when the field is absent or null.
absl::StatusOr<std::optional<std::vector<int64_t>>> OptionalIntegers(simdjson::dom::object from,
                                                                     const std::string& field,
                                                                     const char* what);

// Numbers of records that are kept as float32.

// Nothing where it is not finite in float32.
inline std::optional<float> FiniteFloat(double value) {
  const auto rounded = static_cast<float>(value);
  return std::isfinite(rounded) ? std::optional(rounded) : std::nullopt;
}

// Of a number as text, as CSV has it.
inline std::optional<float> FiniteFloat(const std::string& text) {
  double value = 0;
  return absl::SimpleAtod(text, &value) ? FiniteFloat(value) : std::nullopt;
}

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_TYPED_FIELDS_H_
