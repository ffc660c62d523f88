// What a dataset holds, and what would become of it.
#ifndef COXSWAIN_CONTROLLER_DATA_INSPECT_H_
#define COXSWAIN_CONTROLLER_DATA_INSPECT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"

namespace coxswain::data {

struct FieldReport {
  std::string name;
  std::map<std::string, int64_t> types;  // JSON type -> records
};

// Of the documents that a model's tokenizer makes of the records.
struct TokenReport {
  int64_t documents = 0;
  int64_t tokens = 0;
  int64_t targets = 0;
  int64_t longest = 0;
  int64_t above_sequence_len = 0;  // these are what excess_length decides on
  int64_t no_target = 0;           // dropped
  std::map<int64_t, int64_t>
      lengths;  // bound, a power of 2 -> documents up to it, above half of it
};

struct DatasetReport {
  config::DatasetFormat format{};
  int64_t records = 0;
  int64_t bad_records = 0;
  std::vector<std::string> first_errors;  // "path:line: ...", at most 3
  std::vector<FieldReport> fields;        // in the order of their first appearance
  std::string first_record;               // its JSON, as read
  TokenReport tokens;                     // empty without a model
};

// Reads all of the dataset; job.model_path empty: nothing is tokenised. Errors as PrepareData, but
// a bad record is counted. Memory stays flat.
absl::StatusOr<DatasetReport> InspectDataset(const config::JobSpec& job,
                                             const config::DatasetSpec& dataset);

// For people.
std::string InspectText(const DatasetReport& report);
// {format, records, bad_records, first_errors, fields, first_record, tokens: {...}}
std::string InspectJson(const DatasetReport& report);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_INSPECT_H_
