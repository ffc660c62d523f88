// Documents of a job's datasets as the model will see them: tokens, labels and their origin.
#ifndef COXSWAIN_CONTROLLER_DATA_LOOK_PREVIEW_H_
#define COXSWAIN_CONTROLLER_DATA_LOOK_PREVIEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/data/documents/field_parts.h"
#include "controller/text/records/record.h"

namespace coxswain::data {

struct PreviewToken {
  int32_t id = 0;
  std::string text;     // control characters and broken UTF-8 escaped: "\n", "\xE2"
  bool target = false;  // true: its label is its id; false: -100, as other tools print it
};

// A run of neighbouring tokens, either all targets or none.
struct PreviewRun {
  std::string text;  // escaped as a whole: a character from several tokens is not cut
  bool target = false;
};

struct PreviewDocument {
  std::string path;
  int64_t line = 0;
  std::string role = {};   // of a preference: chosen, rejected, desirable, undesirable
  std::string value = {};  // of classification "label positive", of reward "margin 0.5"
  std::string rule;        // how targets were found; empty: by the format
  std::string note;        // reason for leaving the document out, or "truncated"; else empty
  std::vector<PreviewToken> tokens;  // empty: a bad record
  std::vector<PreviewRun> runs;      // the same tokens
  // Set at the first document of a record, or of a rendering of it:
  RecordNotes notes = {};              // parts of the record that are ignored or changed
  std::vector<std::string> unwritten;  // fields with text that the rendering leaves out
  std::vector<FieldPart> parts;        // origin of each part of the text
};

// The first `n` records of each dataset. With `place`, only the record there: "LINE" or
// "FILE:LINE", as in findings. Errors as PrepareData. on_bad_record decides whether a bad record is
// an error or a note. NotFound: there is no record at `place`.
absl::StatusOr<std::vector<PreviewDocument>> PreviewDocuments(const config::JobSpec& job, int n,
                                                              const std::string& place = "");

// Warnings about parts of the records that are ignored or changed, and about odd targets: hardly
// any token is a target, or all are although the dataset has prompts.
std::vector<std::string> TargetWarnings(const std::vector<PreviewDocument>& documents);

int64_t CountTargets(const PreviewDocument& document);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_LOOK_PREVIEW_H_
