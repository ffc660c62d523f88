// What is wrong with a job, and where in its YAML.
#ifndef COXSWAIN_COMMON_CONFIG_CONFIG_ERROR_H_
#define COXSWAIN_COMMON_CONFIG_CONFIG_ERROR_H_

#include <string>
#include <string_view>
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

// Did-you-mean.

// Edit distance with transposition of neighbours (optimal string alignment).
int EditDistance(std::string_view a, std::string_view b);

// The candidate nearest to `word` when it is near enough to be a typing mistake (at most a third of
// the letters, at least one), else empty. Of equally near ones the first.
std::string_view Suggest(std::string_view word, const std::vector<std::string_view>& candidates);

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_CONFIG_ERROR_H_
