// What a method reads of the keys that many methods share: formats of records, targets, the loss.
#ifndef COXSWAIN_COMMON_CONFIG_RULES_METHOD_RULES_H_
#define COXSWAIN_COMMON_CONFIG_RULES_METHOD_RULES_H_

#include "common/config/rules/validate.h"

namespace coxswain::config {

// Adds errors for formats that the method does not read, for formats of other methods alone, and,
// under a method whose loss is of whole documents, for keys of the targets and the loss of tokens.
void CheckMethod(Validated* job);

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_RULES_METHOD_RULES_H_
