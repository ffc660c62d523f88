// Projections that a pattern over module names chooses, as PEFT matches it: the whole name.
#ifndef COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_TARGET_PATTERN_H_
#define COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_TARGET_PATTERN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace coxswain::job_import {

// Names such as "q_proj", which it chooses in every block. InvalidArgument: it is no pattern,
// chooses nothing, or chooses in some blocks only.
absl::StatusOr<std::vector<std::string>> TargetsOfPattern(const std::string& pattern);

}  // namespace coxswain::job_import

#endif  // COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_TARGET_PATTERN_H_
