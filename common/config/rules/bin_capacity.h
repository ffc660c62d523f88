// How many documents are dealt and packed as one, and how many tokens a bin has room for.
#ifndef COXSWAIN_COMMON_CONFIG_RULES_BIN_CAPACITY_H_
#define COXSWAIN_COMMON_CONFIG_RULES_BIN_CAPACITY_H_

#include <cstdint>

#include "common/config/job_spec.h"

namespace coxswain::config {

// Whether the job trains on preferences: dpo, orpo, cpo, simpo, kto.
bool TrainsPreferences(const JobSpec& job);

// Documents of a unit, which stay together and in order: 2 for a pair (chosen, rejected) of a
// preference method or of reward, and for the loss kto (completion, the completion of another
// record for its KL), else 1.
int64_t DocumentsPerUnit(const JobSpec& job);

// Tokens of a bin. sequence_len bounds a document, so a bin has room for a unit of documents of
// that length.
int64_t BinCapacity(const JobSpec& job);

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_RULES_BIN_CAPACITY_H_
