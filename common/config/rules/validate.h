// The schema walk: YAML tree -> effective job.
#ifndef COXSWAIN_COMMON_CONFIG_RULES_VALIDATE_H_
#define COXSWAIN_COMMON_CONFIG_RULES_VALIDATE_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/config/config_error.h"
#include "common/config/yaml_tree.h"

namespace coxswain::config {

struct Validated {
  nlohmann::ordered_json effective;  // every key in schema order, defaults filled in
  std::vector<ConfigError> errors;   // unordered; when not empty, `effective` is incomplete
  std::map<std::string, int> lines;  // line of each key that the file sets
};

// Line of the key in the file; 0: the file does not set it.
int LineOf(const Validated& job, const std::string& path);

// The value of "spec.train.seed" in an effective job, or in a part of it. Null where an error has
// left nothing.
const nlohmann::ordered_json& At(const nlohmann::ordered_json& effective, std::string_view path);

// Adds an error about the key, with its line.
void AddError(const std::string& path, std::string message, Validated* job);

Validated Validate(const Node& root, const std::string& base_dir);

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_RULES_VALIDATE_H_
