// A set of small integers that answers "smallest member >= x" by a hierarchy of 64-bit words:
// O(log_64 universe) per operation, which is 3 levels for a universe of 262,144.
#ifndef COXSWAIN_CONTROLLER_DATA_PACKING_SUCCESSOR_SET_H_
#define COXSWAIN_CONTROLLER_DATA_PACKING_SUCCESSOR_SET_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace coxswain::data {

class SuccessorSet {
 public:
  // Members lie in [0, universe); universe >= 1.
  explicit SuccessorSet(size_t universe);

  void Insert(size_t x);
  void Erase(size_t x);
  // Smallest member >= x, or -1. x may be the universe itself.
  int64_t Successor(size_t x) const;

 private:
  std::vector<std::vector<uint64_t>> levels_;  // levels_[0]: one bit per integer
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_PACKING_SUCCESSOR_SET_H_
