#include "controller/data/packing/fit.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

namespace coxswain::data {

int64_t FirstFit(BinLimits limits, std::span<const int32_t> lengths, std::span<int32_t> bin_of) {
  if (lengths.empty()) return 0;
  // Leaf b holds what bin b can still take; inner nodes hold the maximum of their children. Bins
  // that are not in use yet are empty ones, so a fitting leaf always exists.
  const size_t leaves = std::bit_ceil(lengths.size());
  std::vector<int32_t> room(2 * leaves, limits.capacity);
  std::vector<int64_t> documents(lengths.size(), 0);
  int64_t bins = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    size_t node = 1;
    while (node < leaves) node = 2 * node + (room[2 * node] >= lengths[i] ? 0 : 1);
    const size_t bin = node - leaves;
    bin_of[i] = static_cast<int32_t>(bin);
    bins = std::max(bins, static_cast<int64_t>(bin) + 1);
    room[node] = ++documents[bin] == limits.max_documents ? 0 : room[node] - lengths[i];
    for (node /= 2; node >= 1; node /= 2) room[node] = std::max(room[2 * node], room[2 * node + 1]);
  }
  return bins;
}

BestFit::BestFit(BinLimits limits)
    : limits_(limits),
      remaining_values_(static_cast<size_t>(limits.capacity) + 1),
      first_with_(static_cast<size_t>(limits.capacity) + 1, -1) {}

void BestFit::Open(int32_t bin) {
  const size_t remaining = remaining_[bin];
  if (remaining == 0 || documents_[bin] >= limits_.max_documents) return;
  if (first_with_[remaining] < 0) remaining_values_.Insert(remaining);
  next_[bin] = first_with_[remaining];
  first_with_[remaining] = bin;
}

int32_t BestFit::Take(int32_t length) {
  const int64_t remaining = remaining_values_.Successor(length);
  if (remaining < 0) return -1;
  const int32_t bin = first_with_[remaining];
  first_with_[remaining] = next_[bin];
  if (next_[bin] < 0) remaining_values_.Erase(remaining);
  return bin;
}

int64_t BestFit::Assign(std::span<const int32_t> lengths, std::span<int32_t> bin_of) {
  next_.clear();
  remaining_.clear();
  documents_.clear();
  for (size_t i = 0; i < lengths.size(); ++i) {
    int32_t bin = Take(lengths[i]);
    if (bin < 0) {
      bin = static_cast<int32_t>(remaining_.size());
      remaining_.push_back(limits_.capacity);
      documents_.push_back(0);
      next_.push_back(-1);
    }
    remaining_[bin] -= lengths[i];
    ++documents_[bin];
    Open(bin);
    bin_of[i] = bin;
  }
  while (Take(1) >= 0) {
  }
  return static_cast<int64_t>(remaining_.size());
}

}  // namespace coxswain::data
