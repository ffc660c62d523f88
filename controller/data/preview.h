// The first documents of a job's datasets as the model will see them: tokens and labels.
#ifndef COXSWAIN_CONTROLLER_DATA_PREVIEW_H_
#define COXSWAIN_CONTROLLER_DATA_PREVIEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/data/readers/record_notes.h"

namespace coxswain::data {

struct PreviewToken {
  int32_t id = 0;
  std::string text;     // control characters and broken UTF-8 escaped: "\n", "\xE2"
  bool target = false;  // its label is its id; else -100, as other tools print it
};

struct PreviewDocument {
  std::string path;
  int64_t line = 0;
  std::string rule;  // how its targets were found; empty: by the format
  std::string note;  // why the document is not in the training set, or "truncated"; empty: nothing
  std::vector<PreviewToken> tokens;  // empty: a bad record
  RecordNotes notes = {};  // what of the record is not used as it stands, at its first document
};

// The first `n` records of each dataset. Errors as PrepareData; bad records are errors or notes as
// on_bad_record says.
absl::StatusOr<std::vector<PreviewDocument>> PreviewDocuments(const config::JobSpec& job, int n);

// What of the documents' records is not used as it stands, and what is odd about their targets:
// hardly any token is one, or every one is though the dataset has prompts.
std::vector<std::string> TargetWarnings(const std::vector<PreviewDocument>& documents);

// For people: "text(label, id)" per token, then the warnings; `color`: targets green, the rest
// grey.
absl::StatusOr<std::string> PreviewData(const config::JobSpec& job, int n, bool color);

// {"documents": [{path, line, rule, note, notes, tokens, targets, input_ids, labels, text}],
// "warnings":
// []}
absl::StatusOr<std::string> PreviewJson(const config::JobSpec& job, int n);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_PREVIEW_H_
