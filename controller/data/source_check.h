// What is odd about the records of a source: all of them read as a job would, nothing written.
#ifndef COXSWAIN_CONTROLLER_DATA_SOURCE_CHECK_H_
#define COXSWAIN_CONTROLLER_DATA_SOURCE_CHECK_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/data/cancelled.h"
#include "controller/data/findings.h"

namespace coxswain::data {

struct SourceReport {
  struct Field {
    std::string name;  // "...": the unread ones beyond Findings::kMaxNames
    int64_t records = 0;
    bool read = false;  // the format reads it
  };
  struct LongRecord {
    RecordPlace place;
    int64_t tokens = 0;  // before any cut, of its longest document
  };
  struct Duplicate {
    RecordPlace place, of;
  };
  static constexpr size_t kMostLongest = 5;

  config::DatasetFormat format{};
  std::vector<std::string> files;
  int64_t records = 0;
  int64_t documents = 0;
  int64_t tokens = 0;
  int64_t targets = 0;
  std::vector<Field> fields;             // in the order of their first appearance
  std::map<std::string, int64_t> roles;  // of messages, as templates see them
  Findings findings;                     // bad records by what is wrong with them
  std::vector<Duplicate> duplicates;     // at most Finding::kMaxPlaces of those in `findings`
  std::vector<LongRecord> longest;       // at most kMostLongest, the longest first
  std::vector<std::string> warnings;     // of the template

  bool clean() const { return findings.all().empty() && warnings.empty(); }
};

// Reads all of `dataset` under job.model_path, sequence_len and chat_template. A record is a
// duplicate of an earlier one where it trains the same tokens. Bad records are findings, those of
// preference tuning too. Errors as PrepareData. Memory grows by 32 bytes a record.
absl::StatusOr<SourceReport> CheckSource(const config::JobSpec& job,
                                         const config::DatasetSpec& dataset,
                                         const Cancelled& cancelled = {});

// For people; of each finding at most `most_places` places.
std::string SourceReportText(const SourceReport& report, size_t most_places);
// {format, records, documents, tokens, targets, fields: [{name, records, read}], roles, findings:
// [{what, name, records, times, places: ["FILE:LINE"]}], duplicates: [{record, of}], longest:
// [{record, tokens}], warnings, clean}
nlohmann::ordered_json SourceReportJson(const SourceReport& report);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_SOURCE_CHECK_H_
