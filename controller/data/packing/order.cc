#include "controller/data/packing/order.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <utility>

#include "absl/numeric/int128.h"
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

namespace {

// Of documents, their lengths and the squares of them. Integers: the order is the same everywhere.
struct Sums {
  int64_t count = 0;
  absl::int128 lengths = 0, squares = 0;  // below 2^57 and 2^83

  void Add(int64_t length) {
    ++count;
    lengths += length;
    squares += absl::int128(length) * length;
  }
  // Any max_documents of them, but for few draws in a hundred, fill a bin before they are too many.
  bool Fill(BinLimits limits) const {
    const absl::int128 most = std::min<int64_t>(limits.max_documents, limits.capacity);
    const absl::int128 above = most * lengths / count - limits.capacity;
    const absl::int128 variance = (squares * count - lengths * lengths) / count / count;
    return above >= 0 && above * above >= 4 * most * variance;
  }
};

// Documents at the front of `by_length` that are taken in that order.
size_t Sorted(std::span<const int32_t> lengths, std::span<const int32_t> by_length,
              BinLimits limits) {
  Sums shorter;
  for (size_t i = by_length.size(); i-- > 0;) {
    const int32_t length = lengths[by_length[i]];
    shorter.Add(length);
    const bool whole = i == 0 || lengths[by_length[i - 1]] != length;
    if (whole && shorter.Fill(limits)) return i;
  }
  return 0;
}

}  // namespace

std::vector<int32_t> DecreasingOrder(std::span<const int32_t> lengths, BinLimits limits) {
  std::vector<int32_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [lengths](int32_t a, int32_t b) { return lengths[a] > lengths[b]; });
  const auto end = static_cast<std::ptrdiff_t>(Sorted(lengths, order, limits));
  std::sort(order.begin() + end, order.end());
  return order;
}

}  // namespace coxswain::data
