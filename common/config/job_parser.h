// Job YAML -> JobSpec, every error at once.
#ifndef COXSWAIN_COMMON_CONFIG_JOB_PARSER_H_
#define COXSWAIN_COMMON_CONFIG_JOB_PARSER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/config/job_spec.h"

namespace coxswain::config {

struct ConfigError {
  std::string path;     // e.g. "spec.train.learning_rate"
  int line = 0;         // 1-based, 0 when the key is missing
  std::string message;  // with allowed range, or did-you-mean
};

struct ParsedJob {
  JobSpec spec;                      // meaningful only when errors is empty
  std::vector<ConfigError> errors;   // all of them, in line order
  std::map<std::string, int> lines;  // 1-based, of the keys that the file gives
  std::string effective_json;        // the resolved job, stable key order
};

// What `auto` under spec.resources stands for, as far as it is known.
struct ChosenResources {
  std::optional<Device> device = {};
  std::optional<int64_t> workers = {};
};

// Checks `yaml` against the schema table. Relative paths are resolved against `base_dir`. Looks at
// no file. `chosen` replaces auto before keys are checked against each other; what stays auto
// leaves a spec without HasChosenResources.
ParsedJob ParseJob(const std::string& yaml, const std::string& base_dir,
                   const ChosenResources& chosen = {});

// "job.yaml:12: spec.train.lerning_rate: unknown key; did you mean learning_rate?" per error.
std::string FormatErrors(const std::vector<ConfigError>& errors, const std::string& yaml_path);

// The reference page (Markdown) generated from the schema table.
std::string SchemaReference();

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_JOB_PARSER_H_
