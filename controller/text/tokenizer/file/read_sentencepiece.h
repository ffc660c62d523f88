// Reads a tokenizer.model.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_READ_SENTENCEPIECE_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_READ_SENTENCEPIECE_H_

#include <string_view>

#include "absl/status/status.h"
#include "controller/text/tokenizer/file/tokenizer_file.h"

namespace coxswain::data {

// Reads `bytes`, the content of file->path: pieces, merges, normalizer and decoder. Control symbols
// become special tokens. User-defined symbols become tokens that are matched in normalized text.
// InvalidArgument: the model is damaged or of an unsupported kind.
absl::Status ReadSentencePiece(std::string_view bytes, TokenizerFile* file);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_READ_SENTENCEPIECE_H_
