// Documents of a job's datasets as the model will see them: tokens and labels, and where they come
// from.
#ifndef COXSWAIN_CONTROLLER_DATA_PREVIEW_H_
#define COXSWAIN_CONTROLLER_DATA_PREVIEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/data/field_parts.h"
#include "controller/data/readers/record_notes.h"

namespace coxswain::data {

struct PreviewToken {
  int32_t id = 0;
  std::string text;     // control characters and broken UTF-8 escaped: "\n", "\xE2"
  bool target = false;  // its label is its id; else -100, as other tools print it
};

// Neighbouring tokens that are targets, or are none.
struct PreviewRun {
  std::string text;  // escaped as one: a character that several tokens write is whole
  bool target = false;
};

struct PreviewDocument {
  std::string path;
  int64_t line = 0;
  std::string rule;  // how its targets were found; empty: by the format
  std::string note;  // why the document is not in the training set, or "truncated"; empty: nothing
  std::vector<PreviewToken> tokens;  // empty: a bad record
  std::vector<PreviewRun> runs;      // the same tokens
  // At the first document of a record, or of a rendering of it:
  RecordNotes notes = {};              // what of the record is not used as it stands
  std::vector<std::string> unwritten;  // its fields that hold text which the rendering leaves out
  std::vector<FieldPart> parts;        // which field each stretch of its text came from
};

// The first `n` records of each dataset; with `place`, the one there alone: "LINE" or "FILE:LINE",
// as findings name it. Errors as PrepareData; bad records are errors or notes as on_bad_record
// says. NotFound: no record stands at `place`.
absl::StatusOr<std::vector<PreviewDocument>> PreviewDocuments(const config::JobSpec& job, int n,
                                                              const std::string& place = "");

// What of the documents' records is not used as it stands, and what is odd about their targets:
// hardly any token is one, or every one is though the dataset has prompts.
std::vector<std::string> TargetWarnings(const std::vector<PreviewDocument>& documents);

int64_t CountTargets(const PreviewDocument& document);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_PREVIEW_H_
