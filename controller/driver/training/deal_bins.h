// Deals the bins of a step to the ranks so that they finish together. Pure.
#ifndef COXSWAIN_CONTROLLER_DRIVER_TRAINING_DEAL_BINS_H_
#define COXSWAIN_CONTROLLER_DRIVER_TRAINING_DEAL_BINS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "controller/driver/training/curriculum.h"

namespace coxswain::driver {

// What a bin costs beside its attention, in operations as of common/model/flops.h.
struct BinWork {
  double per_token = 1;
  double per_bin = 0;  // where a bin takes all its slots, filled or not
  // Bins of a micro-step that costs the same with fewer; 0: a micro-step costs what is in it.
  int64_t micro_step_bins = 0;

  double Of(const BinSize& bin) const {
    return per_bin + per_token * static_cast<double>(bin.tokens) + bin.attention_flops;
  }
};

// Per rank, the indices of its bins, ascending: disjoint, covering, none empty when there are at
// least as many bins as ranks. The largest sum of costs is made small: longest bin first to the
// least loaded rank, then exchanges between the most loaded rank and the others. With
// micro_step_bins no rank has more micro-steps than needed. Costs are > 0.
std::vector<std::vector<int64_t>> DealBins(std::span<const BinSize> bins, int ranks,
                                           const BinWork& work);

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_TRAINING_DEAL_BINS_H_
