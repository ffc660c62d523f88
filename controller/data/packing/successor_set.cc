#include "controller/data/packing/successor_set.h"

#include <bit>

namespace coxswain::data {
namespace {

// Bits of `word` at positions >= bit; bit < 64.
uint64_t From(uint64_t word, size_t bit) { return word & (~uint64_t{0} << bit); }

}  // namespace

SuccessorSet::SuccessorSet(size_t universe) {
  size_t words = universe;
  do {
    words = (words + 63) / 64;
    levels_.emplace_back(words, 0);
  } while (words > 1);
}

void SuccessorSet::Insert(size_t x) {
  for (auto& level : levels_) {
    level[x / 64] |= uint64_t{1} << (x % 64);
    x /= 64;
  }
}

void SuccessorSet::Erase(size_t x) {
  for (auto& level : levels_) {
    level[x / 64] &= ~(uint64_t{1} << (x % 64));
    if (level[x / 64] != 0) return;
    x /= 64;
  }
}

int64_t SuccessorSet::Successor(size_t x) const {
  for (size_t up = 0; up < levels_.size(); ++up) {
    if (x / 64 >= levels_[up].size()) return -1;
    if (uint64_t word = From(levels_[up][x / 64], x % 64); word != 0) {
      size_t found = x / 64 * 64 + static_cast<size_t>(std::countr_zero(word));
      for (size_t down = up; down-- > 0;) {
        found = found * 64 + static_cast<size_t>(std::countr_zero(levels_[down][found]));
      }
      return static_cast<int64_t>(found);
    }
    x = x / 64 + 1;
  }
  return -1;
}

}  // namespace coxswain::data
