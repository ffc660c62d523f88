// Which bin a document goes to.
#ifndef COXSWAIN_CONTROLLER_DATA_PACKING_FIT_H_
#define COXSWAIN_CONTROLLER_DATA_PACKING_FIT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "controller/data/packing/successor_set.h"

namespace coxswain::data {

// The limits of one bin.
struct BinLimits {
  int32_t capacity = 0;       // tokens, >= 1
  int64_t max_documents = 0;  // >= 1
};

// First fit: each document goes to the earliest bin with room, found in a segment tree of maxima.

// Assigns lengths[i] (each in [1, capacity]) in the order given; bin_of[i] becomes its bin. Returns
// the number of bins. O(n log n).
int64_t FirstFit(BinLimits limits, std::span<const int32_t> lengths, std::span<int32_t> bin_of);

// Best fit: each document goes to the open bin that it fills up most.

// Reusable over windows: memory is O(capacity + documents of one window).
class BestFit {
 public:
  explicit BestFit(BinLimits limits);

  // Assigns lengths[i] (each in [1, capacity]) in the order given; bin_of[i] becomes its bin.
  // Returns the number of bins. O(n) set operations.
  int64_t Assign(std::span<const int32_t> lengths, std::span<int32_t> bin_of);

 private:
  void Open(int32_t bin);        // offers the bin again under its remaining capacity
  int32_t Take(int32_t length);  // an open bin with the least sufficient remaining capacity, or -1

  BinLimits limits_;
  SuccessorSet remaining_values_;    // remaining capacities of the open bins
  std::vector<int32_t> first_with_;  // remaining capacity -> an open bin, or -1
  std::vector<int32_t> next_;        // bin -> next open bin of equal remaining capacity, or -1
  std::vector<int32_t> remaining_;   // bin -> tokens left
  std::vector<int32_t> documents_;   // bin -> documents in it
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_PACKING_FIT_H_
