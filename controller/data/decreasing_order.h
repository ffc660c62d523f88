// The order in which best-fit decreasing takes the documents of a window.
#ifndef COXSWAIN_CONTROLLER_DATA_DECREASING_ORDER_H_
#define COXSWAIN_CONTROLLER_DATA_DECREASING_ORDER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "controller/data/bin_limits.h"

namespace coxswain::data {

// Indices of `lengths` (each in [1, limits.capacity], fewer than 2^31), the longest first and equal
// lengths as they come. The shortest documents, at the end, all come as they come: in order of
// length what is left there would be bins of max_documents documents that do not fill them. This
// end is the smallest one with every document of each of its lengths for whose mean u and variance
// v
//
//   max_documents u - 2 sqrt(max_documents v) >= capacity,
//
// so that max_documents of them, drawn at random, fill a bin but for some 2 % of the draws. It is
// of one length where the bound stops no bin, and all of `lengths` where no end is long enough.
std::vector<int32_t> DecreasingOrder(std::span<const int32_t> lengths, BinLimits limits);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_DECREASING_ORDER_H_
