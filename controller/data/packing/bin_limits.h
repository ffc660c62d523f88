// The limits of one bin.
#ifndef COXSWAIN_CONTROLLER_DATA_PACKING_BIN_LIMITS_H_
#define COXSWAIN_CONTROLLER_DATA_PACKING_BIN_LIMITS_H_

#include <cstdint>

namespace coxswain::data {

struct BinLimits {
  int32_t capacity = 0;       // tokens, >= 1
  int64_t max_documents = 0;  // >= 1
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_PACKING_BIN_LIMITS_H_
