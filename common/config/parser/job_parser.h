// Job YAML -> JobSpec, every error at once.
#ifndef COXSWAIN_COMMON_CONFIG_PARSER_JOB_PARSER_H_
#define COXSWAIN_COMMON_CONFIG_PARSER_JOB_PARSER_H_

#include <map>
#include <string>
#include <vector>

#include "common/config/config_error.h"
#include "common/config/job_spec.h"

namespace coxswain::config {

struct ParsedJob {
  JobSpec spec;                      // meaningful only when errors is empty
  std::vector<ConfigError> errors;   // all of them, in line order
  std::map<std::string, int> lines;  // 1-based, of the keys that the file gives
  std::string effective_json;        // the resolved job, stable key order
};

// Checks `yaml` against the schema table. Relative paths are resolved against `base_dir`. Looks at
// no file, but asks whether a path exists that reads as something else. `chosen` replaces auto
// before keys are checked against each other; what stays auto leaves a spec without
// HasChosenResources.
ParsedJob ParseJob(const std::string& yaml, const std::string& base_dir,
                   const ChosenResources& chosen = {});

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_PARSER_JOB_PARSER_H_
