#include "bench/controller/rank_balance.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "bench/document_lengths.h"
#include "common/model/flops.h"
#include "common/model/parameter_table.h"
#include "common/status_macros.h"
#include "controller/data/packing/packing.h"
#include "tests/common/config/default_spec.h"

namespace coxswain::bench {
namespace {

using driver::BinSize;
using driver::BinWork;

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

double LinearFlopsPerToken() {
  const model::ModelConfig model = HalfBillion();
  auto table = model::BaseParameterTable(model);
  for (auto& parameter : table) parameter.group = 0;  // trainable
  return model::TrainingFlops(model, table, 0).total();
}

}  // namespace

Mix AlpacaMix() {
  Mix mix{"alpaca", {}, 2048};
  std::mt19937 random(1);
  std::uniform_real_distribution<double> quantile(0, 256);
  for (int i = 0; i < 52000; ++i) {
    const double at = quantile(random);
    const auto q = static_cast<size_t>(at);
    const double low = kAlpacaLengths[q], high = kAlpacaLengths[q + 1];
    mix.lengths.push_back(static_cast<int32_t>(low + (at - std::floor(at)) * (high - low)));
  }
  return mix;
}

Mix LongTailedMix() {
  Mix mix{"long-tailed", {}, 8192};
  std::mt19937 random(2);
  std::lognormal_distribution<double> length = ChatLengths();
  for (int i = 0; i < 30000; ++i) {
    mix.lengths.push_back(static_cast<int32_t>(std::clamp(length(random), kShortestChat, 8192.0)));
  }
  return mix;
}

absl::StatusOr<std::vector<BinSize>> PackedBins(const Mix& mix) {
  const model::ModelConfig model = HalfBillion();
  ASSIGN_OR_RETURN(const data::Bins packed,
                   data::PackDocuments(mix.lengths, mix.capacity, config::DefaultSpec().packing,
                                       /*seed=*/42, /*pass=*/0));
  std::vector<BinSize> bins(static_cast<size_t>(packed.size()));
  for (int64_t b = 0; b < packed.size(); ++b) {
    BinSize& bin = bins[static_cast<size_t>(b)];
    bin.id = b;
    for (const int64_t document : packed.bin(b)) {
      const int64_t length = mix.lengths[static_cast<size_t>(document)];
      bin.tokens += length;
      bin.attention_flops += model::AttentionFlops(model, length);
    }
  }
  return bins;
}

BinWork WorkByTokens() { return {.per_token = LinearFlopsPerToken()}; }

BinWork WorkBySlots(const Mix& mix) {
  return {.per_token = 0,
          .per_bin = LinearFlopsPerToken() * static_cast<double>(mix.capacity),
          .micro_step_bins = 1};
}

std::vector<std::vector<int64_t>> ContiguousRuns(std::span<const BinSize> bins, int ranks) {
  int64_t all = 0, before = 0;
  for (const BinSize& bin : bins) all += bin.tokens;
  std::vector<std::vector<int64_t>> hands(static_cast<size_t>(ranks));
  for (size_t i = 0; i < bins.size(); ++i) {
    const int64_t rank = (before + bins[i].tokens / 2) * ranks / all;
    hands[static_cast<size_t>(rank)].push_back(static_cast<int64_t>(i));
    before += bins[i].tokens;
  }
  return hands;
}

Unevenness UnevennessOf(std::span<const BinSize> bins, int ranks, int bins_per_rank,
                        const BinWork& work, const Deal& deal) {
  double slowest = 0, mean = 0;
  std::vector<double> ratios;
  const size_t batch = static_cast<size_t>(ranks) * static_cast<size_t>(bins_per_rank);
  for (size_t begin = 0; begin + batch <= bins.size(); begin += batch) {
    const auto step = bins.subspan(begin, batch);
    double most = 0, all = 0;
    for (const auto& hand : deal(step, ranks)) {
      double load = 0;
      for (const int64_t bin : hand) load += work.Of(step[static_cast<size_t>(bin)]);
      most = std::max(most, load);
      all += load;
    }
    slowest += most;
    mean += all / ranks;
    ratios.push_back(most * ranks / all);
  }
  if (ratios.empty()) return {};
  std::sort(ratios.begin(), ratios.end());
  return {.over_all = slowest / mean, .p99 = ratios[ratios.size() * 99 / 100]};
}

}  // namespace coxswain::bench
