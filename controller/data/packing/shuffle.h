// Philox Fisher-Yates: the only source of order in data preparation.
#ifndef COXSWAIN_CONTROLLER_DATA_PACKING_SHUFFLE_H_
#define COXSWAIN_CONTROLLER_DATA_PACKING_SHUFFLE_H_

#include <cstdint>
#include <span>

namespace coxswain::data {

// The objects that are shuffled. Each stream draws its own random numbers.
enum class ShuffleStream : uint32_t { kDocuments = 0, kBins = 1 };

// Permutes `items` uniformly, by (seed, pass, stream, first): the same arguments give the same
// order on every machine. `first` (< 2^32) distinguishes shuffles of one stream, e.g. the index of
// their first item.
void PhiloxShuffle(uint64_t seed, int64_t pass, ShuffleStream stream, int64_t first,
                   std::span<int64_t> items);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_PACKING_SHUFFLE_H_
