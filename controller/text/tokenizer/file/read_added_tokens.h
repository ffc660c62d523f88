// The list `added_tokens` of a tokenizer.json.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_READ_ADDED_TOKENS_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_READ_ADDED_TOKENS_H_

#include <simdjson.h>

#include "absl/status/status.h"
#include "controller/text/tokenizer/file/tokenizer_file.h"

namespace coxswain::data {

// Reads file->added. Call it after the model and the pipeline are read. InvalidArgument: an id that
// Hugging Face would change on load, or an entry without id or content.
absl::Status ReadAddedTokens(simdjson::dom::element document, TokenizerFile* file);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_READ_ADDED_TOKENS_H_
