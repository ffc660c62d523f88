// Which fields of a record a format reads.
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_FIELDS_READ_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_FIELDS_READ_H_

#include <string>
#include <string_view>
#include <vector>

#include "common/config/job_spec.h"

namespace coxswain::data {

// Their names, those first of which a record must have one. Empty: any (kAuto), as the format is
// told by them.
std::vector<std::string> FieldsRead(config::DatasetFormat format,
                                    const config::RecordFields& fields);

// What makes a record one of preference tuning, unless the job names them as fields of its own:
// pairs have `chosen` and `rejected`, single answers a verdict `label` or `kto_tag`.
inline constexpr std::string_view kPreferenceFields[] = {"chosen", "rejected", "label", "kto_tag"};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_FIELDS_READ_H_
