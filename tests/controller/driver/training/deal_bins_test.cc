#include "controller/driver/training/deal_bins.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>
#include <string>

#include "bench/controller/rank_balance.h"

namespace coxswain::driver {
namespace {

using Hands = std::vector<std::vector<int64_t>>;

std::vector<BinSize> Bins(const std::vector<int64_t>& tokens) {
  std::vector<BinSize> bins;
  for (const int64_t t : tokens)
    bins.push_back({.id = static_cast<int64_t>(bins.size()), .tokens = t});
  return bins;
}

// Invariant driver-3: bins of the ranks are disjoint and cover the batch.
TEST(DealBinsTest, CoversEveryBinOnceInOrderAndLeavesNoRankEmpty) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    const int ranks = 1 + static_cast<int>(random() % 8);
    std::vector<int64_t> tokens(random() % 20);
    for (int64_t& t : tokens) t = 1 + random() % 2048;
    const BinWork work{.micro_step_bins = static_cast<int64_t>(random() % 4)};
    const Hands hands = DealBins(Bins(tokens), ranks, work);
    ASSERT_EQ(hands.size(), static_cast<size_t>(ranks));
    std::vector<int64_t> all;
    for (const auto& hand : hands) {
      EXPECT_TRUE(std::is_sorted(hand.begin(), hand.end()));
      if (static_cast<int>(tokens.size()) >= ranks && work.micro_step_bins < 2) {
        EXPECT_FALSE(hand.empty());
      }
      all.insert(all.end(), hand.begin(), hand.end());
    }
    std::sort(all.begin(), all.end());
    std::vector<int64_t> expected(tokens.size());
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(all, expected);
  }
}

TEST(DealBinsTest, OneRankGetsTheBatchAsItIs) {
  EXPECT_EQ(DealBins(Bins({5, 900, 17}), 1, {}), (Hands{{0, 1, 2}}));
}

TEST(DealBinsTest, BalancesByCostNotByCount) {
  EXPECT_EQ(DealBins(Bins({1000, 240, 250, 260, 250}), 2, {}), (Hands{{0}, {1, 2, 3, 4}}));
  std::vector<BinSize> bins = Bins({512, 512, 512, 512});
  bins[2].attention_flops = 900;  // one long document
  EXPECT_EQ(DealBins(bins, 2, {})[0], (std::vector<int64_t>{2}));
}

// With two bins a micro-step and ten bins, two ranks need three micro-steps each at most.
TEST(DealBinsTest, NoRankHasMoreMicroStepsThanNeeded) {
  const auto bins = Bins({9000, 10, 10, 10, 10, 10, 10, 10, 10, 10});
  EXPECT_EQ(DealBins(bins, 2, {.micro_step_bins = 2})[1].size(), 6u);
  EXPECT_EQ(DealBins(bins, 2, {.micro_step_bins = 1})[1].size(), 5u);
}

TEST(DealBinsTest, ExchangesMakeEvenWhatLongestFirstLeaves) {
  const Hands hands = DealBins(Bins({8, 7, 6, 5, 4}), 2, {.micro_step_bins = 3});  // LPT: 17, 13
  int64_t first = 0;
  for (const int64_t bin : hands[0]) first += 8 - bin;
  EXPECT_EQ(first, 15);
}

class BalanceTest : public testing::TestWithParam<int> {};

// Four bins a rank and step.
TEST_P(BalanceTest, RanksComputeEquallyLong) {
  const int ranks = GetParam();
  for (const bench::Mix& mix : {bench::AlpacaMix(), bench::LongTailedMix()}) {
    const auto bins = bench::PackedBins(mix);
    ASSERT_TRUE(bins.ok()) << bins.status();
    for (const BinWork& work : {bench::WorkByTokens(), bench::WorkBySlots(mix)}) {
      const auto dealt = bench::UnevennessOf(
          *bins, ranks, 4, work,
          [&](std::span<const BinSize> step, int count) { return DealBins(step, count, work); });
      const auto runs = bench::UnevennessOf(*bins, ranks, 4, work, bench::ContiguousRuns);
      const std::string row = std::string(mix.name) + (work.per_bin > 0 ? " slots" : " tokens");
      std::printf("%-18s %2d ranks: max/mean %.4f, p99 of the steps %.4f; runs %.4f, %.4f\n",
                  row.c_str(), ranks, dealt.over_all, dealt.p99, runs.over_all, runs.p99);
      EXPECT_LE(dealt.over_all, 1.03) << row;
      EXPECT_LE(dealt.over_all, runs.over_all) << row;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, BalanceTest, testing::Values(2, 4, 8, 64));

}  // namespace
}  // namespace coxswain::driver
