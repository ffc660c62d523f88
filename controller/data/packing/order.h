// The order in which documents come.
#ifndef COXSWAIN_CONTROLLER_DATA_PACKING_ORDER_H_
#define COXSWAIN_CONTROLLER_DATA_PACKING_ORDER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "controller/data/packing/fit.h"

namespace coxswain::data {

// Philox Fisher-Yates: the only source of order in data preparation.

// The objects that are shuffled. Each stream draws its own random numbers.
enum class ShuffleStream : uint32_t { kDocuments = 0, kBins = 1 };

// Permutes `items` uniformly, by (seed, pass, stream, first): the same arguments give the same
// order on every machine. `first` (< 2^32) distinguishes shuffles of one stream, e.g. the index of
// their first item.
void PhiloxShuffle(uint64_t seed, int64_t pass, ShuffleStream stream, int64_t first,
                   std::span<int64_t> items);

// The order in which best-fit decreasing takes the documents of a window.

// Indices of `lengths` (each in [1, limits.capacity], fewer than 2^31), the longest first. Equal
// lengths keep their order. The shortest documents form the end, which keeps its order as a whole:
// sorted by length, bins there would reach max_documents documents without being full. The end
// contains all documents of each of its lengths. It is the smallest such set for whose mean u and
// variance v
//
//   max_documents u - 2 sqrt(max_documents v) >= capacity,
//
// so that max_documents of them, drawn at random, fill a bin in about 98 % of the draws. If the
// bound stops no bin, the end has one length. If no end is long enough, it is all of `lengths`.
std::vector<int32_t> DecreasingOrder(std::span<const int32_t> lengths, BinLimits limits);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_PACKING_ORDER_H_
