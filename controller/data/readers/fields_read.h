// The fields of a record that a format reads.
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_FIELDS_READ_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_FIELDS_READ_H_

#include <string>
#include <string_view>
#include <vector>

#include "common/config/job_spec.h"

namespace coxswain::data {

// Names of the fields; first those of which a record must have at least one. Empty for kAuto,
// because the fields decide the format.
std::vector<std::string> FieldsRead(config::DatasetFormat format,
                                    const config::RecordFields& fields);

// Whether records of the format are pairs, or single completions with a label.
inline bool IsPreferenceFormat(config::DatasetFormat format) {
  return format == config::DatasetFormat::kPreference ||
         format == config::DatasetFormat::kUnpairedPreference;
}

// Fields that mark a record of preference tuning, unless the job uses them as its own fields. Pairs
// have `chosen` and `rejected`; single answers have a verdict `label` or `kto_tag`.
inline constexpr std::string_view kPreferenceFields[] = {"chosen", "rejected", "label", "kto_tag"};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_FIELDS_READ_H_
