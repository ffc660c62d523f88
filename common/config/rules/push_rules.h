// What `export.push_to_hub` may say.
#ifndef COXSWAIN_COMMON_CONFIG_RULES_PUSH_RULES_H_
#define COXSWAIN_COMMON_CONFIG_RULES_PUSH_RULES_H_

#include "common/config/rules/validate.h"

namespace coxswain::config {

// Adds an error for a repository without an owner, a name or branch that the Hub does not allow, a
// commit in the place of a branch, and a job that exports nothing.
void CheckPush(Validated* job);

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_RULES_PUSH_RULES_H_
