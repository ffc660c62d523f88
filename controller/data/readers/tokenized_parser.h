// Parses records that already are token ids.
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_TOKENIZED_PARSER_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_TOKENIZED_PARSER_H_

#include <simdjson.h>

#include "absl/status/statusor.h"
#include "controller/text/records/record.h"

namespace coxswain::data {

// Reads input_ids and these fields, each absent, null or of the same length:
//   labels           -100 where a token is no target, else its id
//   attention_mask   0: the token is left out; numbers above 1 count documents
//   completion_mask, assistant_masks, loss_mask   0: no target
//   position_ids     where they do not continue, a document begins
//   seq_lengths      the lengths of its documents, which add up to all ids
// A token is a target if all of them agree. InvalidArgument names the field, the place and both
// values: a list has another length, an entry is none of these values, or positions have a gap.
absl::StatusOr<TokenizedRecord> ParseTokenized(simdjson::dom::object from);

// The fields that ParseTokenized reads, input_ids first.
inline constexpr const char* kTokenizedFields[] = {
    "input_ids",       "labels",    "attention_mask", "completion_mask",
    "assistant_masks", "loss_mask", "position_ids",   "seq_lengths"};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_TOKENIZED_PARSER_H_
