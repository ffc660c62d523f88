// The opcodes of Python's pickle, for messages.
#ifndef COXSWAIN_COMMON_FILES_TORCH_PICKLE_OPCODES_H_
#define COXSWAIN_COMMON_FILES_TORCH_PICKLE_OPCODES_H_

#include <cstdint>
#include <string>

namespace coxswain {

// "STACK_GLOBAL"; of a byte that no protocol up to 5 knows "0x07".
std::string PickleOpcodeName(uint8_t code);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_TORCH_PICKLE_OPCODES_H_
