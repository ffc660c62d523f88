// Streams a file through data preparation: MB/s and peak memory.
//
//   build/cpu/bench/data_stream_bench MEGABYTES|FILE [DIRECTORY]     from the repository root
//
// FILE holds completion records (bench/text_files.py makes one of each kind); else MEGABYTES (1e6
// bytes each) of JSON Lines are written into DIRECTORY (default: the temporary directory). Prepares
// them with the tokenizer of deploy/quickstart/model, packs one pass, and removes everything.
// Prints seconds, MB/s of input and the peak resident memory of the process (VmHWM), as JSON. Exit
// 1 when the peak reaches COXSWAIN_RSS_LIMIT_MB (default 700).
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/status_macros.h"
#include "controller/data/packing/packing.h"
#include "controller/data/prepare/prepare.h"
#include "tests/common/config/default_spec.h"

namespace coxswain::data {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Records of 200 to 4,000 characters of words that repeat as in natural text (Zipf), so that
// neither the tokenizer's caches nor its merges are spared.
void Generate(const std::string& path, int64_t bytes) {
  std::mt19937_64 random(1);
  std::vector<std::string> words(50000);
  for (std::string& word : words) {
    word.resize(2 + random() % 9);
    for (char& c : word) c = static_cast<char>('a' + random() % 26);
  }
  std::ofstream file(path, std::ios::binary);
  std::string record;
  for (int64_t written = 0; written < bytes; written += static_cast<int64_t>(record.size())) {
    const size_t size = 200 + random() % 3800;
    record = "{\"text\": \"";
    while (record.size() < size) {
      const double u = static_cast<double>(random() >> 11) * 0x1p-53;
      const auto rank = static_cast<size_t>(std::pow(static_cast<double>(words.size()), u)) - 1;
      record += words[rank];
      record += random() % 12 == 0 ? ". " : " ";
    }
    record += "\"}\n";
    file << record;
  }
}

absl::StatusOr<nlohmann::json> Stream(const std::string& directory, const std::string& path) {
  const auto bytes = static_cast<int64_t>(fs::file_size(path));
  config::JobSpec job = config::DefaultSpec();
  job.model_path = "deploy/quickstart/model";
  config::DatasetSpec dataset = config::DefaultDataset();
  dataset.path = path;
  dataset.format = config::DatasetFormat::kCompletion;
  job.datasets = {dataset};
  PrepareOptions options;
  options.cache_dir = directory + "/cache";

  auto start = Clock::now();
  ASSIGN_OR_RETURN(PreparedData data, PrepareData(job, options));
  const double prepare_seconds = SecondsSince(start);
  start = Clock::now();
  ASSIGN_OR_RETURN(data, PrepareData(job, options));
  const double cached_seconds = SecondsSince(start);
  start = Clock::now();
  std::vector<int32_t> lengths(data.train->num_documents());
  for (size_t d = 0; d < lengths.size(); ++d) lengths[d] = data.train->length(d);
  ASSIGN_OR_RETURN(const Bins bins,
                   PackDocuments(lengths, job.sequence_len, job.packing, job.train.seed, 0));
  const double pack_seconds = SecondsSince(start);

  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return nlohmann::json{
      {"megabytes", static_cast<double>(bytes) / 1e6},
      {"documents", data.train->num_documents()},
      {"tokens", data.train->num_tokens()},
      {"bins", bins.size()},
      {"prepare_seconds", prepare_seconds},
      {"megabytes_per_second", static_cast<double>(bytes) / 1e6 / prepare_seconds},
      {"cached_seconds", cached_seconds},
      {"pack_seconds", pack_seconds},
      {"peak_rss_megabytes", static_cast<double>(usage.ru_maxrss) * 1024 / 1e6}};
}

int Run(const std::string& input, const std::string& parent) {
  std::string directory = parent + "/coxswain_stream.XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) {
    std::perror("data_stream_bench: mkdtemp");
    return 1;
  }
  std::string path = input;
  if (!fs::exists(path)) {
    path = directory + "/data.jsonl";
    Generate(path, std::atoll(input.c_str()) * 1000000);
  }
  const auto result = Stream(directory, path);
  fs::remove_all(directory);
  if (!result.ok()) {
    std::fprintf(stderr, "data_stream_bench: %s\n", result.status().ToString().c_str());
    return 1;
  }
  std::cout << result->dump(1) << std::endl;
  const char* given = std::getenv("COXSWAIN_RSS_LIMIT_MB");
  const double limit = given != nullptr ? std::atof(given) : 700;
  if (result->at("peak_rss_megabytes").get<double>() < limit) return 0;
  std::fprintf(stderr, "data_stream_bench: peak memory is not below %.0f MB\n", limit);
  return 1;
}

}  // namespace
}  // namespace coxswain::data

int main(int argc, char** argv) {
  const std::string input = argc > 1 ? argv[1] : "";
  if (argc > 3 || (std::atoll(input.c_str()) <= 0 && !std::filesystem::exists(input))) {
    std::fprintf(stderr, "usage: data_stream_bench MEGABYTES|FILE [DIRECTORY]\n");
    return 2;
  }
  return coxswain::data::Run(input,
                             argc > 2 ? argv[2] : std::filesystem::temp_directory_path().string());
}
