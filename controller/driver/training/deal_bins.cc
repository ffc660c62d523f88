#include "controller/driver/training/deal_bins.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <utility>

namespace coxswain::driver {
namespace {

// Exchanges end when the largest load is this near to the mean, or after so many: large gangs are
// even before the first one.
constexpr double kEvenEnough = 1.002;
constexpr int kMostExchanges = 64;
constexpr size_t kPartners = 8;  // the least loaded ranks

struct Deal {
  std::vector<double> costs;                // by bin
  std::vector<std::vector<int64_t>> hands;  // by rank: bins
  std::vector<double> loads;                // by rank: sum of costs
};

// The most bins of a rank; without micro-steps of fixed cost, all of them.
int64_t MostBins(int64_t bins, int ranks, int64_t micro_step_bins) {
  if (micro_step_bins == 0) return bins;
  const int64_t per_round = ranks * micro_step_bins;
  return (bins + per_round - 1) / per_round * micro_step_bins;
}

void LongestFirst(int64_t most, Deal* deal) {
  std::vector<int64_t> order(deal->costs.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return deal->costs[a] > deal->costs[b]; });
  using Load = std::pair<double, int>;  // equal loads: the lower rank first
  std::priority_queue<Load, std::vector<Load>, std::greater<Load>> least;
  for (int rank = 0; rank < static_cast<int>(deal->hands.size()); ++rank) least.emplace(0.0, rank);
  for (const int64_t bin : order) {
    auto [load, rank] = least.top();
    least.pop();
    deal->hands[rank].push_back(bin);
    deal->loads[rank] = load + deal->costs[bin];
    if (static_cast<int64_t>(deal->hands[rank].size()) < most)
      least.emplace(deal->loads[rank], rank);
  }
}

// The exchange of one bin of `high` for one of `low` that brings their loads nearest to each other.
// False: none lowers the larger one.
bool Exchange(int high, int low, Deal* deal) {
  const double gap = deal->loads[high] - deal->loads[low];
  double best = gap;  // difference of the loads afterwards
  std::pair<size_t, size_t> places;
  for (size_t i = 0; i < deal->hands[high].size(); ++i) {
    for (size_t j = 0; j < deal->hands[low].size(); ++j) {
      const double moved = deal->costs[deal->hands[high][i]] - deal->costs[deal->hands[low][j]];
      const double after = gap > 2 * moved ? gap - 2 * moved : 2 * moved - gap;
      if (moved > 0 && after < best) {
        best = after;
        places = {i, j};
      }
    }
  }
  if (best >= gap) return false;
  int64_t& a = deal->hands[high][places.first];
  int64_t& b = deal->hands[low][places.second];
  const double moved = deal->costs[a] - deal->costs[b];
  std::swap(a, b);
  deal->loads[high] -= moved;
  deal->loads[low] += moved;
  return true;
}

// Exchanges between the most loaded rank and the least loaded ones.
void Even(Deal* deal) {
  const size_t ranks = deal->hands.size();
  const double mean =
      std::accumulate(deal->loads.begin(), deal->loads.end(), 0.0) / static_cast<double>(ranks);
  const auto lighter = [&](int a, int b) {
    return std::make_pair(deal->loads[a], a) < std::make_pair(deal->loads[b], b);
  };
  std::vector<int> partners(ranks);
  std::iota(partners.begin(), partners.end(), 0);
  const auto end = partners.begin() + static_cast<int64_t>(std::min(kPartners, ranks));
  for (int exchange = 0; exchange < kMostExchanges; ++exchange) {
    const int high = static_cast<int>(std::max_element(deal->loads.begin(), deal->loads.end()) -
                                      deal->loads.begin());
    if (deal->loads[high] <= kEvenEnough * mean) return;
    std::partial_sort(partners.begin(), end, partners.end(), lighter);
    const auto lowers = [&](int low) { return low != high && Exchange(high, low, deal); };
    if (std::none_of(partners.begin(), end, lowers)) return;
  }
}

}  // namespace

std::vector<std::vector<int64_t>> DealBins(std::span<const BinSize> bins, int ranks,
                                           const BinWork& work) {
  Deal deal;
  deal.costs.reserve(bins.size());
  for (const BinSize& bin : bins) deal.costs.push_back(work.Of(bin));
  deal.hands.resize(static_cast<size_t>(ranks));
  deal.loads.resize(static_cast<size_t>(ranks), 0.0);
  LongestFirst(MostBins(static_cast<int64_t>(bins.size()), ranks, work.micro_step_bins), &deal);
  Even(&deal);
  for (std::vector<int64_t>& hand : deal.hands) std::sort(hand.begin(), hand.end());
  return std::move(deal.hands);
}

}  // namespace coxswain::driver
