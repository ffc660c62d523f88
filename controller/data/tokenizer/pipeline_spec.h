// The steps of a tokenizer.json around its model: normalizer, pre-tokenizer, decoder.
#ifndef COXSWAIN_CONTROLLER_DATA_TOKENIZER_PIPELINE_SPEC_H_
#define COXSWAIN_CONTROLLER_DATA_TOKENIZER_PIPELINE_SPEC_H_

#include <simdjson.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace coxswain::data {

// One Split of the pre-tokenizer.
struct SplitSpec {
  std::string pattern;
  bool literal = false;  // the pattern is plain text, not a regex
  bool drop_matches = false;
  bool drop_gaps = false;
};

struct PipelineSpec {
  bool nfc = false;
  std::vector<SplitSpec> splits;  // in order
  int prefix_space_stage = -1;    // a space goes before parts that reach this split; -1: never
};

// InvalidArgument says which step is not supported and what is; it does not name the file.
absl::StatusOr<PipelineSpec> ReadPipelineSpec(simdjson::dom::element tokenizer_json);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_TOKENIZER_PIPELINE_SPEC_H_
