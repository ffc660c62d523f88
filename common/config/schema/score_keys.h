// Rows of the schema for models that give a document scores: reward models and classifiers.
#ifndef COXSWAIN_COMMON_CONFIG_SCHEMA_SCORE_KEYS_H_
#define COXSWAIN_COMMON_CONFIG_SCHEMA_SCORE_KEYS_H_

#include <vector>

#include "common/config/schema/key.h"

namespace coxswain::config {

// Appends spec.reward, spec.classification and their keys. Each is null where the method does not
// read it.
void AppendScoreKeys(std::vector<Key>* table);

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_SCHEMA_SCORE_KEYS_H_
