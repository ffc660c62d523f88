// First fit: each document goes to the earliest bin with room, found in a segment tree of maxima.
#ifndef COXSWAIN_CONTROLLER_DATA_PACKING_FIRST_FIT_H_
#define COXSWAIN_CONTROLLER_DATA_PACKING_FIRST_FIT_H_

#include <cstdint>
#include <span>

#include "controller/data/packing/bin_limits.h"

namespace coxswain::data {

// Assigns lengths[i] (each in [1, capacity]) in the order given; bin_of[i] becomes its bin. Returns
// the number of bins. O(n log n).
int64_t FirstFit(BinLimits limits, std::span<const int32_t> lengths, std::span<int32_t> bin_of);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_PACKING_FIRST_FIT_H_
