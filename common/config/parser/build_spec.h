// Effective job -> JobSpec.
#ifndef COXSWAIN_COMMON_CONFIG_PARSER_BUILD_SPEC_H_
#define COXSWAIN_COMMON_CONFIG_PARSER_BUILD_SPEC_H_

#include <nlohmann/json.hpp>

#include "common/config/job_spec.h"

namespace coxswain::config {

// `effective` has passed Validate and ApplyRules without error.
JobSpec BuildSpec(const nlohmann::ordered_json& effective);

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_PARSER_BUILD_SPEC_H_
