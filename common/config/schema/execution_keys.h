// Rows of the schema for how a job computes: number formats, memory, evaluation, files.
#ifndef COXSWAIN_COMMON_CONFIG_SCHEMA_EXECUTION_KEYS_H_
#define COXSWAIN_COMMON_CONFIG_SCHEMA_EXECUTION_KEYS_H_

#include <vector>

#include "common/config/schema/key.h"

namespace coxswain::config {

// Appends spec.precision to spec.export and their keys.
void AppendExecutionKeys(std::vector<Key>* table);

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_SCHEMA_EXECUTION_KEYS_H_
