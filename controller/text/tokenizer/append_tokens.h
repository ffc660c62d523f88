// Adds a job's special tokens to the tokenizer of its base model.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_APPEND_TOKENS_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_APPEND_TOKENS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "controller/text/tokenizer/file/tokenizer_file.h"

namespace coxswain::data {

// Gives each of `tokens` that the file lacks the next id and adds it to the fingerprint.
// InvalidArgument: an empty token, a tokenizer other than tokenizer.json, or a tokenizer whose next
// id is not above all others.
absl::Status AppendTokens(const std::vector<std::string>& tokens, TokenizerFile* file);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_APPEND_TOKENS_H_
