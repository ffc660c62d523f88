#include "controller/driver/deal_bins.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>

#include "bench/worker/engine/alpaca_lengths.h"
#include "common/model/flops.h"
#include "common/model/parameter_table.h"
#include "controller/data/packing.h"

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

// What was dealt before costs were known: contiguous runs, cut where the tokens are even.
Hands ContiguousRuns(const std::vector<BinSize>& bins, int ranks) {
  int64_t all = 0, before = 0;
  for (const BinSize& bin : bins) all += bin.tokens;
  Hands hands(static_cast<size_t>(ranks));
  for (size_t i = 0; i < bins.size(); ++i) {
    hands[static_cast<size_t>((before + bins[i].tokens / 2) * ranks / all)].push_back(
        static_cast<int64_t>(i));
    before += bins[i].tokens;
  }
  return hands;
}

struct Mix {
  const char* name;
  std::vector<int32_t> lengths;
  int64_t capacity;
};

Mix Alpaca() {
  Mix mix{"alpaca", {}, 2048};
  std::mt19937 random(1);
  std::uniform_real_distribution<double> quantile(0, 256);
  for (int i = 0; i < 52000; ++i) {
    const double at = quantile(random);
    const auto q = static_cast<size_t>(at);
    const double low = bench::kAlpacaLengths[q], high = bench::kAlpacaLengths[q + 1];
    mix.lengths.push_back(static_cast<int32_t>(low + (at - std::floor(at)) * (high - low)));
  }
  return mix;
}

// Log-normal: median 300, one document in a hundred above 6,000.
Mix LongTailed() {
  Mix mix{"long-tailed", {}, 8192};
  std::mt19937 random(2);
  std::lognormal_distribution<double> length(std::log(300.0), 1.3);
  for (int i = 0; i < 30000; ++i) {
    mix.lengths.push_back(static_cast<int32_t>(std::clamp(length(random), 8.0, 8192.0)));
  }
  return mix;
}

// The shape of a 0.5B model: small enough that attention matters.
model::ModelConfig HalfBillion() {
  model::ModelConfig model;
  model.architecture = "Qwen2ForCausalLM";
  model.vocab_size = 151936;
  model.hidden_size = 896;
  model.intermediate_size = 4864;
  model.num_layers = 24;
  model.num_heads = 14;
  model.num_kv_heads = 2;
  model.head_dim = 64;
  model.tie_embeddings = true;
  model.layer_windows.assign(24, 0);
  return model;
}

// Sum over steps of the slowest rank's cost, over that of the mean: time / least possible time.
template <typename Deal>
double Unevenness(const std::vector<BinSize>& bins, int ranks, int bins_per_rank,
                  const BinWork& work, Deal deal) {
  double slowest = 0, mean = 0;
  const size_t batch = static_cast<size_t>(ranks) * static_cast<size_t>(bins_per_rank);
  for (size_t begin = 0; begin + batch <= bins.size(); begin += batch) {
    const auto first = bins.begin() + static_cast<int64_t>(begin);
    const std::vector<BinSize> step(first, first + static_cast<int64_t>(batch));
    double most = 0, all = 0;
    for (const auto& hand : deal(step)) {
      double load = 0;
      for (const int64_t bin : hand) load += work.Of(step[static_cast<size_t>(bin)]);
      most = std::max(most, load);
      all += load;
    }
    slowest += most;
    mean += all / ranks;
  }
  return slowest / mean;
}

class BalanceTest : public testing::TestWithParam<int> {};

// Four bins a rank and step; the planner's own count of operations.
TEST_P(BalanceTest, RanksComputeEquallyLong) {
  const int ranks = GetParam();
  const model::ModelConfig model = HalfBillion();
  auto table = model::BaseParameterTable(model);
  for (auto& parameter : table) parameter.group = 0;
  const double linear = model::TrainingFlops(model, table, 0).total();
  for (const Mix& mix : {Alpaca(), LongTailed()}) {
    const auto packed = data::PackDocuments(mix.lengths, mix.capacity, {}, 42, 0);
    ASSERT_TRUE(packed.ok()) << packed.status();
    std::vector<BinSize> bins(static_cast<size_t>(packed->size()));
    for (int64_t b = 0; b < packed->size(); ++b) {
      BinSize& bin = bins[static_cast<size_t>(b)];
      bin.id = b;
      for (const int64_t document : packed->bin(b)) {
        bin.tokens += mix.lengths[static_cast<size_t>(document)];
        bin.attention_flops +=
            model::AttentionFlops(model, mix.lengths[static_cast<size_t>(document)]);
      }
    }
    const BinWork cpu{.per_token = linear};
    const BinWork gpu{.per_token = 0,
                      .per_bin = linear * static_cast<double>(mix.capacity),
                      .micro_step_bins = 1};
    for (const BinWork& work : {cpu, gpu}) {
      const double now = Unevenness(bins, ranks, 4, work, [&](const std::vector<BinSize>& step) {
        return DealBins(step, ranks, work);
      });
      const double before = Unevenness(bins, ranks, 4, work, [&](const std::vector<BinSize>& step) {
        return ContiguousRuns(step, ranks);
      });
      std::printf("%-11s %d ranks, %s: max/mean %.4f, contiguous runs %.4f\n", mix.name, ranks,
                  work.per_bin > 0 ? "slots " : "tokens", now, before);
      EXPECT_LE(now, 1.03) << mix.name;
      EXPECT_LE(now, before) << mix.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, BalanceTest, testing::Values(2, 4, 8));

}  // namespace
}  // namespace coxswain::driver
