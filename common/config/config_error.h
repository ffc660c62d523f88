// What is wrong with a job, and where in its YAML.
#ifndef COXSWAIN_COMMON_CONFIG_CONFIG_ERROR_H_
#define COXSWAIN_COMMON_CONFIG_CONFIG_ERROR_H_

#include <string>
#include <vector>

namespace coxswain::config {

struct ConfigError {
  std::string path;     // e.g. "spec.train.learning_rate"
  int line = 0;         // 1-based, 0 when the key is missing
  std::string message;  // with allowed range, or did-you-mean
};

// Writes one line per error: "job.yaml:12: spec.train.lerning_rate: unknown key; did you mean
// learning_rate?"
std::string FormatErrors(const std::vector<ConfigError>& errors, const std::string& yaml_path);

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_CONFIG_ERROR_H_
