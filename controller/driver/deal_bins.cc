#include "controller/driver/deal_bins.h"

#include <algorithm>

namespace coxswain::driver {

std::vector<BinRange> DealBins(std::span<const BinSize> bins, int ranks) {
  const int64_t count = static_cast<int64_t>(bins.size());
  std::vector<int64_t> before(count + 1, 0);  // tokens of bins [0, i)
  for (int64_t i = 0; i < count; ++i) before[i + 1] = before[i] + bins[i].tokens;

  const bool everyone = count >= ranks;
  std::vector<BinRange> ranges(ranks);
  int64_t begin = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    int64_t end = count;
    if (rank + 1 < ranks) {
      // Compared in units of 1/ranks token, so that no rounding decides.
      const int64_t goal = before[count] * (rank + 1);
      end = std::lower_bound(before.begin() + begin, before.end(), goal,
                             [&](int64_t tokens, int64_t wanted) { return tokens * ranks < wanted; }) -
            before.begin();
      if (end > begin && goal - before[end - 1] * ranks <= before[end] * ranks - goal) --end;
      if (everyone) end = std::clamp(end, begin + 1, count - (ranks - rank - 1));
    }
    ranges[rank] = {begin, end};
    begin = end;
  }
  return ranges;
}

}  // namespace coxswain::driver
