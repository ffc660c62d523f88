// Rows of the schema that say what is read, and how records become documents.
#ifndef COXSWAIN_COMMON_CONFIG_SCHEMA_DATA_KEYS_H_
#define COXSWAIN_COMMON_CONFIG_SCHEMA_DATA_KEYS_H_

#include <vector>

#include "common/config/schema/key.h"

namespace coxswain::config {

// Appends spec.datasets and the keys behind it, in the order of the reference page.
void AppendDataKeys(std::vector<Key>* table);

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_SCHEMA_DATA_KEYS_H_
