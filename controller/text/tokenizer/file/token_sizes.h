// The number of bytes of a text that each of its tokens covers.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_TOKEN_SIZES_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_TOKEN_SIZES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "controller/text/tokenizer/file/tokenizer_file.h"

namespace coxswain::data {

// Sizes of `ids`, the model's tokens of `words`. `words` is the text as the pre-tokenizer passes it
// to the model. Only tokens that begin before byte `until` are returned. A token of unknown
// characters extends to the start of the next token.
std::vector<size_t> TokenSizes(const TokenizerFile& file, std::span<const int32_t> ids,
                               std::string_view words, size_t until);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_TOKEN_SIZES_H_
