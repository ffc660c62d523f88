// Reports odd records of a source. It reads all records as a job would, and writes nothing.
#ifndef COXSWAIN_CONTROLLER_DATA_LOOK_SOURCE_CHECK_H_
#define COXSWAIN_CONTROLLER_DATA_LOOK_SOURCE_CHECK_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/data/early_end.h"
#include "controller/data/findings.h"

namespace coxswain::data {

struct SourceReport {
  struct Field {
    std::string name;  // "...": all unread fields beyond Findings::kMaxNames
    int64_t records = 0;
    bool read = false;  // the format reads it
  };
  struct LongRecord {
    RecordPlace place;
    int64_t tokens = 0;  // of its longest document, before any cut
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
  std::map<std::string, int64_t> roles;  // roles of messages, as templates see them
  // Records by label, of classification, as they have it; "...": all labels beyond
  // Findings::kMaxNames.
  std::map<std::string, int64_t> labels;
  Findings findings;                  // bad records are listed by their fault
  std::vector<Duplicate> duplicates;  // at most Finding::kMaxPlaces of those in `findings`
  std::vector<LongRecord> longest;    // at most kMostLongest, the longest first
  std::vector<std::string> warnings;  // warnings about the template

  bool clean() const { return findings.all().empty() && warnings.empty(); }
};

// Reads all of `dataset` under job.model_path, sequence_len and chat_template. A record is a
// duplicate when it trains the same tokens as an earlier one. Bad records are findings, also those
// of preference tuning. Errors as PrepareData. Memory grows by 32 bytes per record.
absl::StatusOr<SourceReport> CheckSource(const config::JobSpec& job,
                                         const config::DatasetSpec& dataset,
                                         const Cancelled& cancelled = {});

// A report for people, with at most `most_places` places per finding.
std::string SourceReportText(const SourceReport& report, size_t most_places);
// {format, records, documents, tokens, targets, fields: [{name, records, read}], roles, labels,
// findings: [{what, name, records, times, places: ["FILE:LINE"]}], duplicates: [{record, of}],
// longest: [{record, tokens}], warnings, clean}
nlohmann::ordered_json SourceReportJson(const SourceReport& report);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_LOOK_SOURCE_CHECK_H_
