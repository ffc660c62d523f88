#include "controller/data/packing/shuffle.h"

#include <array>
#include <cstddef>
#include <utility>

#include "common/philox.h"

namespace coxswain::data {
namespace {

// Uniform in [0, bound) from 64 random bits; the bias is below bound / 2^64.
uint64_t Scale(uint64_t bits, uint64_t bound) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>((static_cast<Wide>(bits) * bound) >> 64);
}

}  // namespace

void PhiloxShuffle(uint64_t seed, int64_t pass, ShuffleStream stream, int64_t first,
                   std::span<int64_t> items) {
  const std::array<uint32_t, 2> key = PhiloxKey(seed, RandomPurpose::kShuffle);
  const uint32_t high = static_cast<uint32_t>(pass) * 2 + static_cast<uint32_t>(stream);
  for (size_t i = items.size(); i > 1; --i) {
    const auto draw =
        Philox4x32({static_cast<uint32_t>(i), static_cast<uint32_t>(uint64_t{i} >> 32), high,
                    static_cast<uint32_t>(first)},
                   key);
    const uint64_t bits = (uint64_t{draw[0]} << 32) | draw[1];
    std::swap(items[i - 1], items[Scale(bits, i)]);
  }
}

}  // namespace coxswain::data
