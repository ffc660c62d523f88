// How evenly the bins of a step are dealt to ranks, by the planner's own count of operations.
#ifndef COXSWAIN_BENCH_CONTROLLER_RANK_BALANCE_H_
#define COXSWAIN_BENCH_CONTROLLER_RANK_BALANCE_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/driver/training/deal_bins.h"

namespace coxswain::bench {

// Documents, and tokens that a bin holds.
struct Mix {
  const char* name = "";
  std::vector<int32_t> lengths;
  int64_t capacity = 0;
};

Mix AlpacaMix();      // 52,000 documents by the quantiles of document_lengths.h, bins of 2,048
Mix LongTailedMix();  // 30,000 chats of document_lengths.h, bins of 8,192

// The bins of one packed pass, with the attention of a 0.5B model: small enough that it matters.
absl::StatusOr<std::vector<driver::BinSize>> PackedBins(const Mix& mix);
// The cost of that model's bins on a CPU, by their tokens, and on a GPU, by their slots.
driver::BinWork WorkByTokens();
driver::BinWork WorkBySlots(const Mix& mix);

using Deal =
    std::function<std::vector<std::vector<int64_t>>(std::span<const driver::BinSize>, int ranks)>;

// Contiguous runs, cut where the tokens are even: what dealing by cost is compared with.
std::vector<std::vector<int64_t>> ContiguousRuns(std::span<const driver::BinSize> bins, int ranks);

// Predicted compute of the slowest rank over that of the mean rank.
struct Unevenness {
  double over_all = 1;  // of the sums over the steps: how much longer the pass takes
  double p99 = 1;       // of the steps
};

// Over the steps of a pass with `bins_per_rank` bins a rank.
Unevenness UnevennessOf(std::span<const driver::BinSize> bins, int ranks, int bins_per_rank,
                        const driver::BinWork& work, const Deal& deal);

}  // namespace coxswain::bench

#endif  // COXSWAIN_BENCH_CONTROLLER_RANK_BALANCE_H_
