// How many bytes of a text each of its tokens stands for.
#ifndef COXSWAIN_CONTROLLER_DATA_TOKENIZER_TOKEN_SIZES_H_
#define COXSWAIN_CONTROLLER_DATA_TOKENIZER_TOKEN_SIZES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "controller/data/tokenizer/tokenizer_file.h"

namespace coxswain::data {

// Sizes of `ids`, tokens of the model that came of `words`: the text as the pre-tokenizer hands it
// to the model; only of those that begin before byte `until`. A token of unknown characters has
// those up to where the next token begins.
std::vector<size_t> TokenSizes(const TokenizerFile& file, std::span<const int32_t> ids,
                               std::string_view words, size_t until);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_TOKENIZER_TOKEN_SIZES_H_
