// Rules of base_model and of datasets that come from the Hub or from a URL.
#ifndef COXSWAIN_COMMON_CONFIG_RULES_SOURCE_RULES_H_
#define COXSWAIN_COMMON_CONFIG_RULES_SOURCE_RULES_H_

#include "common/config/rules/validate.h"

namespace coxswain::config {

// Adds to job->errors: no place is given, two are, or a key does not go with the place. An accepted
// job has a path beside `hub` and `url`: where the cache has it.
void CheckSources(Validated* job);

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_RULES_SOURCE_RULES_H_
