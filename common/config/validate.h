// The schema walk: YAML tree -> effective job.
#ifndef COXSWAIN_COMMON_CONFIG_VALIDATE_H_
#define COXSWAIN_COMMON_CONFIG_VALIDATE_H_

#include <map>
#include <string>
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

Validated Validate(const Node& root, const std::string& base_dir);

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_VALIDATE_H_
