// One YAML value -> one typed value of the effective job.
#ifndef COXSWAIN_COMMON_CONFIG_SCHEMA_VALUE_READER_H_
#define COXSWAIN_COMMON_CONFIG_SCHEMA_VALUE_READER_H_

#include <string>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "common/config/schema/schema.h"
#include "common/config/yaml_tree.h"

namespace coxswain::config {

// Reads a value of any type but the two map types. Paths come back absolute, sizes as bytes, word
// lists as lists. The error message of InvalidArgument stands alone behind "path:line: ".
absl::StatusOr<nlohmann::ordered_json> ReadValue(const Key& key, const Node& node,
                                                 const std::string& base_dir);

// "\"abc\"", "the number 3", "null", "a list", "a map": how messages show what was found.
std::string Describe(const Node& node);

// Unquoted text that YAML 1.2 resolves to a number, true/false or null instead of a string.
bool IsNumber(const std::string& text);
bool IsBool(const std::string& text);

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_SCHEMA_VALUE_READER_H_
