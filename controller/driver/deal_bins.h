// Deals an ordered list of bins to ranks: contiguous runs, balanced by tokens.
#ifndef COXSWAIN_CONTROLLER_DRIVER_DEAL_BINS_H_
#define COXSWAIN_CONTROLLER_DRIVER_DEAL_BINS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "controller/driver/curriculum.h"

namespace coxswain::driver {

struct BinRange {
  int64_t begin = 0;
  int64_t end = 0;  // exclusive
};

// One range per rank, in rank order: disjoint, covering all bins; none is empty when there are at
// least as many bins as ranks. The cut before rank r is where the tokens before it are nearest to
// r/ranks of all. A pure function of its arguments.
std::vector<BinRange> DealBins(std::span<const BinSize> bins, int ranks);

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_DEAL_BINS_H_
