// Rules between keys, and the defaults that depend on another key.
#ifndef COXSWAIN_COMMON_CONFIG_RULES_RULES_H_
#define COXSWAIN_COMMON_CONFIG_RULES_RULES_H_

#include "common/config/job_spec.h"
#include "common/config/rules/validate.h"

namespace coxswain::config {

// Adds to job->errors; when there are none, resolves job->effective, completely where `chosen` says
// what auto resources are.
void ApplyRules(const ChosenResources& chosen, Validated* job);

// The defaults that depend on another key, where it still has them open.
void ResolveDefaults(nlohmann::ordered_json* effective);

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_RULES_RULES_H_
