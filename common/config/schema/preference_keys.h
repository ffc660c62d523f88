// Rows of the schema that say how documents are preferred to each other.
#ifndef COXSWAIN_COMMON_CONFIG_SCHEMA_PREFERENCE_KEYS_H_
#define COXSWAIN_COMMON_CONFIG_SCHEMA_PREFERENCE_KEYS_H_

#include <vector>

#include "common/config/schema/key.h"

namespace coxswain::config {

// Appends spec.preference and its keys. Each is null where the method decides, or does not read it.
void AppendPreferenceKeys(std::vector<Key>* table);

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_SCHEMA_PREFERENCE_KEYS_H_
