// Reads the blocks of GGUF files, as the comments of common/files/gguf_k_quants.h and gguf_blocks.h
// describe them.
#ifndef COXSWAIN_TESTS_SUPPORT_GGUF_BLOCKS_H_
#define COXSWAIN_TESTS_SUPPORT_GGUF_BLOCKS_H_

#include <string>
#include <vector>

#include "common/files/gguf_type.h"

namespace coxswain::support {

// A value, and all that its sub-block could have held: base + step * code for codes of [least,
// most].
struct BlockValue {
  float value = 0;
  float step = 0, base = 0;
  int least = 0, most = 0;
  // The scale and the minimum of the block, one unit of the integers of the sub-block; 0: it has
  // none.
  float scale_unit = 0, minimum_unit = 0;
};

// Of Q5_0, Q5_1, Q8_0, Q4_K, Q5_K or Q6_K.
std::vector<BlockValue> ReadGgufBlocks(GgufType type, const std::string& bytes);

std::vector<float> DecodeGguf(GgufType type, const std::string& bytes);

}  // namespace coxswain::support

#endif  // COXSWAIN_TESTS_SUPPORT_GGUF_BLOCKS_H_
