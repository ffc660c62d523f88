// Reports the content of a dataset, and the documents that it would become.
#ifndef COXSWAIN_CONTROLLER_DATA_LOOK_INSPECT_H_
#define COXSWAIN_CONTROLLER_DATA_LOOK_INSPECT_H_

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

// The documents that a model's tokenizer makes of the records.
struct TokenReport {
  int64_t documents = 0;
  int64_t tokens = 0;
  int64_t targets = 0;
  int64_t longest = 0;
  int64_t above_sequence_len = 0;  // excess_length decides about these
  int64_t no_target = 0;           // dropped
  std::map<int64_t, int64_t>
      lengths;  // bound (a power of 2) -> documents above half of it, up to it
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

// Reads the whole dataset. With an empty job.model_path nothing is tokenised. Errors as
// PrepareData, except that bad records are counted. Memory does not grow with the dataset.
absl::StatusOr<DatasetReport> InspectDataset(const config::JobSpec& job,
                                             const config::DatasetSpec& dataset);

// For people.
std::string InspectText(const DatasetReport& report);
// {format, records, bad_records, first_errors, fields, first_record, tokens: {...}}
std::string InspectJson(const DatasetReport& report);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_LOOK_INSPECT_H_
