#include "controller/data/packing/packing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <tuple>

#include <gtest/gtest.h>
#include "controller/data/packing/order.h"

namespace coxswain::data {
namespace {

using config::PackingSpec;
using config::PackingStrategy;

constexpr PackingStrategy kStrategies[] = {PackingStrategy::kBestFit,
                                           PackingStrategy::kBestFitDecreasing,
                                           PackingStrategy::kFirstFit, PackingStrategy::kNone};

std::vector<int32_t> RandomLengths(size_t n, int32_t longest, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int32_t> lengths(n);
  for (int32_t& length : lengths) length = 1 + static_cast<int32_t>(random() % longest);
  return lengths;
}

// Lengths distributed like short instructions: log-normal, mean about 130, cut at `longest`.
std::vector<int32_t> InstructionLengths(size_t n, int32_t longest, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> draw(4.7, 0.6);
  std::vector<int32_t> lengths(n);
  for (int32_t& x : lengths) x = std::clamp(static_cast<int32_t>(draw(random)), 1, longest);
  return lengths;
}

PackingSpec Spec(PackingStrategy strategy, int64_t window = 100000, int64_t max_documents = 32) {
  PackingSpec spec;
  spec.strategy = strategy;
  spec.window = window;
  spec.max_documents_per_bin = max_documents;
  return spec;
}

int64_t Sum(std::span<const int32_t> lengths, std::span<const int64_t> documents) {
  int64_t sum = 0;
  for (int64_t d : documents) sum += lengths[d];
  return sum;
}

double Efficiency(std::span<const int32_t> lengths, int64_t capacity, const Bins& bins) {
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  return static_cast<double>(tokens) / static_cast<double>(bins.size() * capacity);
}

// Invariants data-1 (each document once), data-2 (capacity) and data-3 (document bound).
void ExpectValid(std::span<const int32_t> lengths, int64_t capacity, int64_t max_documents,
                 const Bins& bins) {
  std::vector<int> seen(lengths.size(), 0);
  for (int64_t b = 0; b < bins.size(); ++b) {
    ASSERT_FALSE(bins.bin(b).empty()) << "bin " << b;
    ASSERT_LE(static_cast<int64_t>(bins.bin(b).size()), max_documents) << "bin " << b;
    ASSERT_LE(Sum(lengths, bins.bin(b)), capacity) << "bin " << b;
    for (int64_t d : bins.bin(b)) ++seen[d];
  }
  ASSERT_EQ(bins.documents.size(), lengths.size());
  for (size_t d = 0; d < seen.size(); ++d) ASSERT_EQ(seen[d], 1) << "document " << d;
}

TEST(PackingTest, EveryStrategyKeepsTheInvariantsOnRandomInputs) {
  for (PackingStrategy strategy : kStrategies) {
    for (auto [n, capacity, window, bound] : {std::tuple{0, 7, 3, 1},
                                              {1, 1, 1, 1},
                                              {2, 1, 100, 4},
                                              {997, 64, 100, 3},
                                              {997, 64, 1, 32},
                                              {1000, 100, 250, 32},
                                              {4096, 4097, 100000, 5},
                                              {5000, 2048, 4999, 32}}) {
      const auto lengths = RandomLengths(n, capacity, 17 * n + capacity);
      auto bins = PackDocuments(lengths, capacity, Spec(strategy, window, bound), 42, 0);
      ASSERT_TRUE(bins.ok()) << bins.status();
      ASSERT_NO_FATAL_FAILURE(ExpectValid(lengths, capacity, bound, *bins))
          << "strategy " << static_cast<int>(strategy) << " n " << n << " window " << window;
    }
  }
}

TEST(PackingTest, NoDocumentsMakeNoBins) {
  for (PackingStrategy strategy : kStrategies) {
    auto bins = PackDocuments({}, 2048, Spec(strategy), 1, 0);
    ASSERT_TRUE(bins.ok());
    EXPECT_EQ(bins->size(), 0);
  }
}

TEST(PackingTest, DocumentsAsLongAsTheCapacityGetABinEach) {
  const std::vector<int32_t> lengths(37, 128);
  for (PackingStrategy strategy : kStrategies) {
    auto bins = PackDocuments(lengths, 128, Spec(strategy), 1, 0);
    ASSERT_TRUE(bins.ok());
    EXPECT_EQ(bins->size(), 37);
  }
}

TEST(PackingTest, DocumentsOfOneTokenFillBinsUpToTheDocumentBound) {
  const std::vector<int32_t> lengths(100, 1);
  for (PackingStrategy strategy : {PackingStrategy::kBestFit, PackingStrategy::kBestFitDecreasing,
                                   PackingStrategy::kFirstFit}) {
    auto bins = PackDocuments(lengths, 2048, Spec(strategy, 1000, 32), 1, 0);
    ASSERT_TRUE(bins.ok());
    EXPECT_EQ(bins->size(), 4);
    EXPECT_NO_FATAL_FAILURE(ExpectValid(lengths, 2048, 32, *bins));
  }
}

TEST(PackingTest, NoneGivesEachDocumentItsOwnBinInShuffledOrder) {
  const auto lengths = RandomLengths(500, 10, 3);
  auto bins = PackDocuments(lengths, 2048, Spec(PackingStrategy::kNone), 1, 0);
  ASSERT_TRUE(bins.ok());
  EXPECT_EQ(bins->size(), 500);
  EXPECT_FALSE(std::is_sorted(bins->documents.begin(), bins->documents.end()));
}

// Plain O(n^2) packing of one window; `best`: least remaining capacity, else earliest bin.
std::multiset<std::set<int64_t>> NaiveBins(std::span<const int32_t> lengths,
                                           std::span<const int64_t> order, int64_t capacity,
                                           size_t bound) {
  std::vector<std::set<int64_t>> bins;
  std::vector<int64_t> room;
  for (int64_t d : order) {
    size_t chosen = bins.size();
    for (size_t b = bins.size(); b-- > 0;) {
      if (room[b] >= lengths[d] && bins[b].size() < bound) chosen = b;
    }
    if (chosen == bins.size()) {
      bins.emplace_back();
      room.push_back(capacity);
    }
    bins[chosen].insert(d);
    room[chosen] -= lengths[d];
  }
  return {bins.begin(), bins.end()};
}

TEST(PackingTest, FirstFitEqualsTheNaiveSearchFromTheLeft) {
  const auto lengths = RandomLengths(701, 60, 5);
  std::vector<int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  PhiloxShuffle(9, 2, ShuffleStream::kDocuments, 0, order);
  auto bins = PackDocuments(lengths, 100, Spec(PackingStrategy::kFirstFit, 1000, 4), 9, 2);
  ASSERT_TRUE(bins.ok());
  std::multiset<std::set<int64_t>> actual;
  for (int64_t b = 0; b < bins->size(); ++b) {
    actual.insert({bins->bin(b).begin(), bins->bin(b).end()});
  }
  EXPECT_EQ(actual, NaiveBins(lengths, order, 100, 4));
}

// Remaining capacity of the bin that best fit must choose for each document, simulated naively.
TEST(PackingTest, BestFitFillsTheBinWithTheLeastSufficientRoom) {
  const auto lengths = RandomLengths(701, 60, 6);
  std::vector<int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  PhiloxShuffle(9, 0, ShuffleStream::kDocuments, 0, order);
  auto bins = PackDocuments(lengths, 100, Spec(PackingStrategy::kBestFit, 1000, 4), 9, 0);
  ASSERT_TRUE(bins.ok());
  std::vector<int64_t> bin_of(lengths.size());
  for (int64_t b = 0; b < bins->size(); ++b) {
    for (int64_t d : bins->bin(b)) bin_of[d] = b;
  }
  std::vector<int64_t> room(bins->size(), 100), count(bins->size(), 0);
  for (int64_t d : order) {
    int64_t least = 101;
    for (int64_t b = 0; b < bins->size(); ++b) {
      if (count[b] > 0 && count[b] < 4 && room[b] >= lengths[d]) least = std::min(least, room[b]);
    }
    const int64_t b = bin_of[d];
    ASSERT_EQ(count[b] == 0 ? 101 : room[b], least) << "document " << d;
    room[b] -= lengths[d];
    ++count[b];
  }
}

TEST(PackingTest, FillsNearlyEverySlotOfInstructionLikeDocuments) {
  const auto lengths = InstructionLengths(52000, 2048, 1);
  for (auto [strategy, bound, least] : {std::tuple{PackingStrategy::kBestFit, 32, 0.99},
                                        {PackingStrategy::kFirstFit, 32, 0.99},
                                        {PackingStrategy::kBestFitDecreasing, 32, 0.995},
                                        {PackingStrategy::kBestFitDecreasing, 2048, 0.999}}) {
    auto bins = PackDocuments(lengths, 2048, Spec(strategy, 100000, bound), 42, 0);
    ASSERT_TRUE(bins.ok());
    EXPECT_GE(Efficiency(lengths, 2048, *bins), least) << static_cast<int>(strategy);
  }
}

// Invariant data-4: order depends on (lengths, spec, seed, pass) alone.
TEST(PackingTest, SameSeedAndPassGiveTheSameBinsAndOthersDoNot) {
  const auto lengths = InstructionLengths(3000, 512, 2);
  for (PackingStrategy strategy : kStrategies) {
    auto pack = [&](uint64_t seed, int64_t pass) {
      return PackDocuments(lengths, 512, Spec(strategy, 1000), seed, pass)->documents;
    };
    EXPECT_EQ(pack(7, 3), pack(7, 3));
    EXPECT_NE(pack(7, 3), pack(7, 4));
    EXPECT_NE(pack(7, 3), pack(8, 3));
    EXPECT_NE(pack(7, 3), pack(7 + (uint64_t{1} << 40), 3));
  }
}

// Pins the order itself: a job resumed with another build must see the same bins.
TEST(PackingTest, OrderIsPinned) {
  const std::vector<int32_t> lengths = {5, 3, 8, 1, 9, 2, 7, 4, 6, 10};
  auto bins = PackDocuments(lengths, 10, Spec(PackingStrategy::kBestFit), 42, 1);
  ASSERT_TRUE(bins.ok());
  EXPECT_EQ(bins->documents, (std::vector<int64_t>{9, 3, 2, 4, 6, 1, 0, 5, 8, 7}));
  EXPECT_EQ(bins->offsets, (std::vector<int64_t>{0, 1, 3, 4, 6, 8, 10}));
}

// Invariant data-5: a bin holds documents of one window of the shuffled order.
TEST(PackingTest, ABinNeverSpansTwoWindows) {
  const auto lengths = RandomLengths(1000, 50, 8);
  std::vector<int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  PhiloxShuffle(1, 0, ShuffleStream::kDocuments, 0, order);
  std::vector<int64_t> window_of(lengths.size());
  for (size_t i = 0; i < order.size(); ++i) window_of[order[i]] = static_cast<int64_t>(i) / 300;
  for (PackingStrategy strategy : kStrategies) {
    auto bins = PackDocuments(lengths, 100, Spec(strategy, 300), 1, 0);
    ASSERT_TRUE(bins.ok());
    int64_t previous = 0;
    for (int64_t b = 0; b < bins->size(); ++b) {
      const int64_t window = window_of[bins->bin(b)[0]];
      EXPECT_GE(window, previous);
      for (int64_t d : bins->bin(b)) EXPECT_EQ(window_of[d], window);
      previous = window;
    }
  }
}

double Correlation(const std::vector<double>& x, const std::vector<double>& y) {
  const double n = static_cast<double>(x.size());
  const double mx = std::accumulate(x.begin(), x.end(), 0.0) / n;
  const double my = std::accumulate(y.begin(), y.end(), 0.0) / n;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mx) * (y[i] - my);
    xx += (x[i] - mx) * (x[i] - mx);
    yy += (y[i] - my) * (y[i] - my);
  }
  return xy / std::sqrt(xx * yy);
}

// Invariant data-6. Over independent bins the coefficient has deviation 1/sqrt(bins); 5 of them.
TEST(PackingTest, OrderOfBinsDoesNotFollowLength) {
  const auto lengths = InstructionLengths(52000, 2048, 4);
  for (PackingStrategy strategy : kStrategies) {
    auto bins = PackDocuments(lengths, 2048, Spec(strategy), 42, 0);
    ASSERT_TRUE(bins.ok());
    std::vector<double> place, mean_length;
    for (int64_t b = 0; b < bins->size(); ++b) {
      place.push_back(static_cast<double>(b));
      mean_length.push_back(static_cast<double>(Sum(lengths, bins->bin(b))) /
                            static_cast<double>(bins->bin(b).size()));
    }
    EXPECT_LT(std::abs(Correlation(place, mean_length)), 5 / std::sqrt(double(bins->size())))
        << static_cast<int>(strategy);
  }
}

TEST(PackingTest, RefusesADocumentLongerThanTheCapacityWithBothNumbers) {
  const std::vector<int32_t> lengths = {5, 2049, 7};
  auto bins = PackDocuments(lengths, 2048, Spec(PackingStrategy::kBestFit), 1, 0);
  ASSERT_EQ(bins.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string message(bins.status().message());
  EXPECT_NE(message.find("document 1 "), std::string::npos) << message;
  EXPECT_NE(message.find("2049"), std::string::npos) << message;
  EXPECT_NE(message.find("2048"), std::string::npos) << message;
}

TEST(PackingTest, RefusesEmptyDocumentsAndImpossibleSpecs) {
  const std::vector<int32_t> empty = {0}, fine = {1};
  const auto best = PackingStrategy::kBestFit;
  EXPECT_FALSE(PackDocuments(empty, 8, Spec(best), 1, 0).ok());
  EXPECT_FALSE(PackDocuments(fine, 0, Spec(best), 1, 0).ok());
  EXPECT_FALSE(PackDocuments(fine, int64_t{1} << 40, Spec(best), 1, 0).ok());
  EXPECT_FALSE(PackDocuments(fine, 8, Spec(best, 0), 1, 0).ok());
  EXPECT_FALSE(PackDocuments(fine, 8, Spec(best, 1, 0), 1, 0).ok());
  const auto cancelled = PackDocuments(fine, 8, Spec(best), 1, 0, [] { return true; });
  EXPECT_EQ(cancelled.status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace coxswain::data
