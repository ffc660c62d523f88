// `--set key=value` on the text of a job.
#ifndef COXSWAIN_COMMON_CONFIG_PARSER_OVERRIDE_H_
#define COXSWAIN_COMMON_CONFIG_PARSER_OVERRIDE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace coxswain::config {

// `yaml` with each "a.b=value" set; the value is YAML ("[1, 2]", "null"). A list is entered by
// index
// ("spec.datasets.0.weight=2"), a missing map is made, and `spec.` may be left out when the first
// word is not a top-level key. Every other value stays on its line. InvalidArgument names the
// setting.
absl::StatusOr<std::string> OverrideJob(const std::string& yaml,
                                        const std::vector<std::string>& settings);

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_PARSER_OVERRIDE_H_
