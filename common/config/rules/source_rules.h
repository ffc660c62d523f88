// What keys say of places outside the job: sources to read, and a repository of the Hub to push to.
#ifndef COXSWAIN_COMMON_CONFIG_RULES_SOURCE_RULES_H_
#define COXSWAIN_COMMON_CONFIG_RULES_SOURCE_RULES_H_

#include "common/config/rules/validate.h"

namespace coxswain::config {

// Rules of base_model and of datasets that come from the Hub or from a URL.

// Adds to job->errors: no place is given, two are, or a key does not go with the place. An accepted
// job has a path beside `hub` and `url`: where the cache has it.
void CheckSources(Validated* job);

// What `export.push_to_hub` may say.

// Adds an error for a repository without an owner, a name or branch that the Hub does not allow, a
// commit in the place of a branch, and a job that exports nothing.
void CheckPush(Validated* job);

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_RULES_SOURCE_RULES_H_
