// Packing of the Alpaca set: time, efficiency = tokens / (bins * capacity), distance to the lower
// bound ceil(tokens / capacity), histogram of documents per bin, for each strategy. Then how evenly
// the bins of a step are dealt to ranks (rank_balance.h).
//
//   build/cpu/bench/packing_bench     from the repository root
//
// Input: alpaca_random_9k of ../shared (env COXSWAIN_SHARED) repeated to 52,000 documents, Qwen2.5
// tokens, prompt_style alpaca, capacity 2,048. Each run packs another pass (another shuffle);
// tokenising is not timed. Prints median and p90 and writes
// bench/results/packing.json.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/controller/rank_balance.h"
#include "bench/report.h"
#include "common/status_macros.h"
#include "controller/data/document_encoder.h"
#include "controller/data/packing.h"
#include "controller/data/readers/record_parser.h"
#include "controller/data/readers/record_reader.h"
#include "tests/common/config/default_spec.h"

namespace coxswain::data {
namespace {

using config::PackingStrategy;

constexpr int64_t kCapacity = 2048;
constexpr size_t kDocuments = 52000;
constexpr int kRuns = 21;

absl::StatusOr<std::vector<int32_t>> AlpacaLengths(const std::string& shared) {
  ASSIGN_OR_RETURN(const auto tokenizer,
                   Tokenizer::Load(shared + "/data/tokenizers/qwen2.5/tokenizer.json.gz"));
  config::JobSpec job = config::DefaultSpec();
  job.sequence_len = kCapacity;
  config::DatasetSpec dataset = config::DefaultDataset();
  dataset.path = shared + "/data/alpaca/alpaca_random_9k.json.gz";
  dataset.format = config::DatasetFormat::kAlpaca;
  ASSIGN_OR_RETURN(const auto encoder, DocumentEncoder::Create(job, dataset, *tokenizer));
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
  const size_t records = lengths.size();
  for (size_t i = records; i < kDocuments; ++i) lengths.push_back(lengths[i - records]);
  return lengths;
}

absl::StatusOr<nlohmann::json> Measure(const std::vector<int32_t>& lengths,
                                       const config::PackingSpec& spec) {
  std::vector<double> ms;
  Bins bins;
  for (int run = 0; run < kRuns; ++run) {
    const auto start = std::chrono::steady_clock::now();
    ASSIGN_OR_RETURN(bins, PackDocuments(lengths, kCapacity, spec, /*seed=*/42, /*pass=*/run));
    ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
                     .count());
  }
  std::sort(ms.begin(), ms.end());
  std::map<std::string, int64_t> histogram;
  for (int64_t b = 0; b < bins.size(); ++b) {
    char key[8];
    std::snprintf(key, sizeof(key), "%02zu", bins.bin(b).size());
    ++histogram[key];
  }
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  const int64_t bound = (tokens + kCapacity - 1) / kCapacity;
  return nlohmann::json{
      {"ms_median", ms[kRuns / 2]},
      {"ms_p90", ms[kRuns * 9 / 10]},
      {"bins", bins.size()},
      {"lower_bound", bound},
      {"bins_above_lower_bound", bins.size() - bound},
      {"efficiency", static_cast<double>(tokens) / static_cast<double>(bins.size() * kCapacity)},
      {"documents_per_bin", histogram}};
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
  const char* given = std::getenv("COXSWAIN_SHARED");
  ASSIGN_OR_RETURN(const auto lengths, AlpacaLengths(given != nullptr ? given : "../shared"));
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  nlohmann::json results = {{"documents", lengths.size()},
                            {"tokens", tokens},
                            {"longest", *std::max_element(lengths.begin(), lengths.end())},
                            {"capacity", kCapacity}};
  std::printf("%zu documents, %lld tokens, capacity %lld\n", lengths.size(),
              static_cast<long long>(tokens), static_cast<long long>(kCapacity));
  std::printf("%-22s %5s %9s %9s %7s %12s %11s\n", "strategy", "bound", "median ms", "p90 ms",
              "bins", "above bound", "efficiency");
  const std::pair<const char*, PackingStrategy> strategies[] = {
      {"best_fit", PackingStrategy::kBestFit},
      {"best_fit_decreasing", PackingStrategy::kBestFitDecreasing},
      {"first_fit", PackingStrategy::kFirstFit},
      {"none", PackingStrategy::kNone}};
  for (const auto& [name, strategy] : strategies) {
    for (const int64_t bound : {int64_t{32}, kCapacity}) {
      config::PackingSpec spec = config::DefaultSpec().packing;
      spec.strategy = strategy;
      spec.max_documents_per_bin = bound;
      ASSIGN_OR_RETURN(nlohmann::json measured, Measure(lengths, spec));
      std::printf("%-22s %5lld %9.2f %9.2f %7lld %12lld %10.3f%%\n", name,
                  static_cast<long long>(bound), measured["ms_median"].get<double>(),
                  measured["ms_p90"].get<double>(), measured["bins"].get<long long>(),
                  measured["bins_above_lower_bound"].get<long long>(),
                  100 * measured["efficiency"].get<double>());
      measured["strategy"] = name;
      measured["max_documents_per_bin"] = bound;
      results["strategies"].push_back(std::move(measured));
    }
  }
  ASSIGN_OR_RETURN(results["balance"], Balance());
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
