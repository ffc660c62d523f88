// The member `model` of a tokenizer.json.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_READ_BPE_MODEL_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_READ_BPE_MODEL_H_

#include <simdjson.h>

#include "absl/status/status.h"
#include "controller/text/tokenizer/file/tokenizer_file.h"

namespace coxswain::data {

// Reads vocabulary and merges. file->byte_level must name the kind of BPE. InvalidArgument: another
// model, an unsupported option, or a vocabulary that contradicts itself.
absl::Status ReadBpeModel(simdjson::dom::element model, TokenizerFile* file);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_READ_BPE_MODEL_H_
