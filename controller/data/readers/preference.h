// Records of preference tuning, which is not there yet: trained as they stand, rejected answers
// would be learnt.
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_PREFERENCE_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_PREFERENCE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace coxswain::data {

// What a record has of kPreferenceFields and does not read.
struct PreferenceMarks {
  bool chosen = false, rejected = false;  // there, and not null
  std::string verdict;                    // `label: false`; empty: none that is true or false

  // Unimplemented, of pairs (DPO) and of single answers with a verdict (KTO), by name.
  absl::Status Refuse() const;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_PREFERENCE_H_
