// Reads the files of a tokenizer.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_READ_TOKENIZER_FILE_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_READ_TOKENIZER_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "controller/text/tokenizer/file/tokenizer_file.h"

namespace coxswain::data {

// `path` and errors as Tokenizer::Load.
absl::StatusOr<TokenizerFile> ReadTokenizerFile(const std::string& path);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_READ_TOKENIZER_FILE_H_
