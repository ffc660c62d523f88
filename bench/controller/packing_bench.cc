// Packing of three sets: slots filled = tokens / (bins * capacity), distance to the lower bound
// ceil(tokens / capacity), documents of a bin, time, for each strategy. Then how evenly the bins of
// a step are dealt to ranks (rank_balance.h).
//
//   build/cpu/bench/packing_bench     from the repository root
//
// Sets: Alpaca, alpaca_random_9k of ../shared (env COXSWAIN_SHARED) repeated to 52,000 documents,
// and the 7,473 of GSM8K, in Qwen2.5 tokens, prompt_style alpaca, capacity 2,048; 30,000 chats with
// a long tail (document_lengths.h), capacity 8,192. Each run packs another pass (another shuffle);
// bins are those of the last. Tokenising is not timed. Prints median and p90 and writes
// bench/results/packing.json.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/controller/rank_balance.h"
#include "bench/report.h"
#include "common/status_macros.h"
#include "controller/data/documents/document_encoder.h"
#include "controller/data/packing/packing.h"
#include "controller/data/readers/record_parser.h"
#include "controller/data/readers/record_reader.h"
#include "tests/common/config/default_spec.h"

namespace coxswain::data {
namespace {

using config::PackingStrategy;

constexpr int64_t kCapacity = 2048;  // of what is read
constexpr size_t kAlpacaDocuments = 52000;
constexpr int kRuns = 21;

// Tokens of each record of a file in alpaca form.
absl::StatusOr<std::vector<int32_t>> LengthsOf(const std::string& path,
                                               const Tokenizer& tokenizer) {
  config::JobSpec job = config::DefaultSpec();
  job.sequence_len = kCapacity;
  config::DatasetSpec dataset = config::DefaultDataset();
  dataset.path = path;
  dataset.format = config::DatasetFormat::kAlpaca;
  ASSIGN_OR_RETURN(const auto encoder, DocumentEncoder::Create(job, dataset, tokenizer));
  ASSIGN_OR_RETURN(const auto reader, RecordReader::Open(dataset.path));
  RecordParser parser(dataset.format, dataset.fields);
  std::vector<int32_t> lengths;
  RawRecord raw;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader->Next(&raw));
    if (!more) break;
    ASSIGN_OR_RETURN(const Record record, parser.Parse(raw.json));
    ASSIGN_OR_RETURN(const std::vector<EncodedDocument> documents, encoder.Encode(record));
    lengths.push_back(static_cast<int32_t>(documents.front().ids.size()));
  }
  return lengths;
}

absl::StatusOr<std::vector<bench::Mix>> Sets() {
  const char* given = std::getenv("COXSWAIN_SHARED");
  const std::string data = std::string(given != nullptr ? given : "../shared") + "/data";
  ASSIGN_OR_RETURN(const auto tokenizer,
                   Tokenizer::Load(data + "/tokenizers/qwen2.5/tokenizer.json.gz"));
  bench::Mix alpaca{"alpaca", {}, kCapacity}, gsm8k{"gsm8k", {}, kCapacity};
  ASSIGN_OR_RETURN(alpaca.lengths,
                   LengthsOf(data + "/alpaca/alpaca_random_9k.json.gz", *tokenizer));
  const size_t records = alpaca.lengths.size();
  for (size_t i = records; i < kAlpacaDocuments; ++i) {
    alpaca.lengths.push_back(alpaca.lengths[i - records]);
  }
  ASSIGN_OR_RETURN(gsm8k.lengths, LengthsOf(data + "/alpaca/gsm_8k_train.json.gz", *tokenizer));
  return std::vector<bench::Mix>{std::move(alpaca), std::move(gsm8k), bench::LongTailedMix()};
}

// Quantiles of the documents of a bin, and bins that hold as many as they may.
nlohmann::json DocumentsOfBins(const Bins& bins, int64_t bound) {
  std::vector<int64_t> counts;
  for (int64_t b = 0; b < bins.size(); ++b) {
    counts.push_back(static_cast<int64_t>(bins.bin(b).size()));
  }
  std::sort(counts.begin(), counts.end());
  const auto quantile = [&counts](size_t percent) {
    return counts[(counts.size() - 1) * percent / 100];
  };
  return {{"p10", quantile(10)},
          {"median", quantile(50)},
          {"p90", quantile(90)},
          {"most", counts.back()},
          {"bins_at_the_bound", std::count(counts.begin(), counts.end(), bound)}};
}

absl::StatusOr<nlohmann::json> Measure(const bench::Mix& set, const config::PackingSpec& spec) {
  std::vector<double> ms;
  Bins bins;
  for (int run = 0; run < kRuns; ++run) {
    const auto start = std::chrono::steady_clock::now();
    ASSIGN_OR_RETURN(bins,
                     PackDocuments(set.lengths, set.capacity, spec, /*seed=*/42, /*pass=*/run));
    ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
                     .count());
  }
  std::sort(ms.begin(), ms.end());
  const int64_t tokens = std::accumulate(set.lengths.begin(), set.lengths.end(), int64_t{0});
  const int64_t bound = (tokens + set.capacity - 1) / set.capacity;
  return nlohmann::json{
      {"ms_median", ms[kRuns / 2]},
      {"ms_p90", ms[kRuns * 9 / 10]},
      {"bins", bins.size()},
      {"lower_bound", bound},
      {"efficiency", static_cast<double>(tokens) / static_cast<double>(bins.size() * set.capacity)},
      {"documents_per_bin", DocumentsOfBins(bins, spec.max_documents_per_bin)}};
}

absl::StatusOr<nlohmann::json> Strategies(const bench::Mix& set) {
  const std::pair<const char*, PackingStrategy> strategies[] = {
      {"best_fit", PackingStrategy::kBestFit},
      {"best_fit_decreasing", PackingStrategy::kBestFitDecreasing},
      {"first_fit", PackingStrategy::kFirstFit},
      {"none", PackingStrategy::kNone}};
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& [name, strategy] : strategies) {
    for (const int64_t bound : {int64_t{32}, set.capacity}) {
      if (strategy == PackingStrategy::kNone && bound != 32) continue;
      config::PackingSpec spec = config::DefaultSpec().packing;
      spec.strategy = strategy;
      spec.max_documents_per_bin = bound;
      ASSIGN_OR_RETURN(nlohmann::json row, Measure(set, spec));
      std::printf("%-22s %5lld %9.2f %9.2f %7lld %12lld %10.3f%%\n", name,
                  static_cast<long long>(bound), row["ms_median"].get<double>(),
                  row["ms_p90"].get<double>(), row["bins"].get<long long>(),
                  row["bins"].get<long long>() - row["lower_bound"].get<long long>(),
                  100 * row["efficiency"].get<double>());
      row["strategy"] = name;
      row["max_documents_per_bin"] = bound;
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

// Predicted compute of the slowest rank over the mean, on a GPU, by bins a rank and step.
absl::StatusOr<nlohmann::json> Balance() {
  nlohmann::json rows = nlohmann::json::array();
  std::printf("%-12s %6s %10s %10s %10s %10s %10s\n", "mix", "ranks", "bins/rank", "max/mean",
              "p99", "as packed", "p99");
  for (const bench::Mix& mix : {bench::AlpacaMix(), bench::LongTailedMix()}) {
    ASSIGN_OR_RETURN(const auto bins, bench::PackedBins(mix));
    const driver::BinWork work = bench::WorkBySlots(mix);
    const auto by_cost = [&](std::span<const driver::BinSize> step, int ranks) {
      return driver::DealBins(step, ranks, work);
    };
    for (const int ranks : {2, 4, 8, 64}) {
      for (const int bins_per_rank : {1, 2, 4, 8}) {
        const auto dealt = bench::UnevennessOf(bins, ranks, bins_per_rank, work, by_cost);
        const auto runs =
            bench::UnevennessOf(bins, ranks, bins_per_rank, work, bench::ContiguousRuns);
        std::printf("%-12s %6d %10d %10.4f %10.4f %10.4f %10.4f\n", mix.name, ranks, bins_per_rank,
                    dealt.over_all, dealt.p99, runs.over_all, runs.p99);
        rows.push_back({{"mix", mix.name},
                        {"ranks", ranks},
                        {"bins_per_rank", bins_per_rank},
                        {"max_over_mean", dealt.over_all},
                        {"max_over_mean_p99", dealt.p99},
                        {"as_packed", runs.over_all},
                        {"as_packed_p99", runs.p99}});
      }
    }
  }
  return rows;
}

absl::Status Run() {
  ASSIGN_OR_RETURN(const std::vector<bench::Mix> sets, Sets());
  nlohmann::json results;
  for (const bench::Mix& set : sets) {
    const int64_t tokens = std::accumulate(set.lengths.begin(), set.lengths.end(), int64_t{0});
    std::printf("%s: %zu documents, %lld tokens, capacity %lld\n", set.name, set.lengths.size(),
                static_cast<long long>(tokens), static_cast<long long>(set.capacity));
    std::printf("%-22s %5s %9s %9s %7s %12s %11s\n", "strategy", "bound", "median ms", "p90 ms",
                "bins", "above bound", "filled");
    nlohmann::json row = {{"set", set.name},
                          {"documents", set.lengths.size()},
                          {"tokens", tokens},
                          {"longest", *std::max_element(set.lengths.begin(), set.lengths.end())},
                          {"capacity", set.capacity}};
    ASSIGN_OR_RETURN(row["strategies"], Strategies(set));
    results["sets"].push_back(std::move(row));
  }
  ASSIGN_OR_RETURN(results["balance"], Balance());
  results["command"] = "build/cpu/bench/packing_bench";
  bench::WriteResults("bench/results/packing.json", std::move(results));
  return absl::OkStatus();
}

}  // namespace
}  // namespace coxswain::data

int main() {
  const absl::Status status = coxswain::data::Run();
  if (!status.ok()) std::fprintf(stderr, "packing_bench: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
