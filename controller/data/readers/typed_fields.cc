#include "controller/data/readers/typed_fields.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace coxswain::data {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::element_type;
using simdjson::dom::object;

namespace {

absl::Status FieldMissing(const std::string& field) {
  return absl::InvalidArgumentError(absl::StrCat("field \"", field, "\" is missing"));
}

}  // namespace

const char* TypeName(element value) {
  switch (value.type()) {
    case element_type::ARRAY:
      return "an array";
    case element_type::OBJECT:
      return "an object";
    case element_type::STRING:
      return "a string";
    case element_type::BOOL:
      return "a boolean";
    case element_type::NULL_VALUE:
      return "null";
    default:
      return "a number";
  }
}

absl::StatusOr<std::string> TextField(object from, const std::string& field) {
  element value;
  if (from.at_key(field).get(value) != simdjson::SUCCESS) return FieldMissing(field);
  std::string_view text;
  if (value.get(text) != simdjson::SUCCESS) {
    return absl::InvalidArgumentError(
        absl::StrCat("field \"", field, "\" is ", TypeName(value), ", not a string"));
  }
  return std::string(text);
}

absl::StatusOr<std::string> OptionalText(object from, const std::string& field) {
  element value;
  if (from.at_key(field).get(value) != simdjson::SUCCESS || value.is_null()) return std::string();
  return TextField(from, field);
}

absl::StatusOr<array> ListField(object from, const std::string& field) {
  element value;
  if (from.at_key(field).get(value) != simdjson::SUCCESS) return FieldMissing(field);
  array list;
  if (value.get(list) != simdjson::SUCCESS) {
    return absl::InvalidArgumentError(
        absl::StrCat("field \"", field, "\" is ", TypeName(value), ", not an array"));
  }
  return list;
}

absl::StatusOr<std::vector<int64_t>> IntegersField(object from, const std::string& field,
                                                   const char* what) {
  ASSIGN_OR_RETURN(const array list, ListField(from, field));
  std::vector<int64_t> numbers;
  numbers.reserve(list.size());
  for (element item : list) {
    int64_t number = 0;
    bool truth = false;
    if (item.get(number) != simdjson::SUCCESS) {
      if (item.get(truth) != simdjson::SUCCESS) {
        return absl::InvalidArgumentError(absl::StrCat("field \"", field, "[", numbers.size(),
                                                       "]\" is ", TypeName(item), ", not ", what));
      }
      number = truth ? 1 : 0;
    }
    numbers.push_back(number);
  }
  return numbers;
}

absl::StatusOr<std::optional<std::vector<int64_t>>> OptionalIntegers(object from,
                                                                     const std::string& field,
                                                                     const char* what) {
  element value;
  if (from.at_key(field).get(value) != simdjson::SUCCESS || value.is_null()) {
    return std::optional<std::vector<int64_t>>();
  }
  ASSIGN_OR_RETURN(std::vector<int64_t> numbers, IntegersField(from, field, what));
  return std::optional<std::vector<int64_t>>(std::move(numbers));
}

}  // namespace coxswain::data
