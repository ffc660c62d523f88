// Refuses records of preference tuning under other methods. Trained as plain records, rejected
// answers would be learnt.
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_PREFERENCE_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_PREFERENCE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace coxswain::data {

// The fields of kPreferenceFields that a record has and its format does not read.
struct PreferenceMarks {
  bool chosen = false, rejected = false;  // present and not null
  std::string verdict;                    // `label: false`; empty: no field is true or false

  // Unimplemented for pairs (DPO) and for single answers with a verdict (KTO). The message names
  // the fields.
  absl::Status Refuse() const;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_PREFERENCE_H_
