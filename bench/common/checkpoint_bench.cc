// A shard of a checkpoint: write and digest it, and read and check it, MB/s. As a whole with
// SHA-256 on one thread, and in blocks with XXH3-128 on 1, 2, 4 ... FileThreads() threads; SHA-256
// of blocks beside them, which is what the choice of digest costs.
//
//   build/cpu/bench/checkpoint_bench [FOLDER [MEGABYTES]]     default: /tmp and 512
//
// FOLDER says which storage: /dev/shm is memory. Every write ends with fsync; reads come from the
// page cache. Variants in turns; prints median and slowest of 5 and writes
// bench/results/checkpoint.json.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/report.h"
#include "common/files/block_digests.h"
#include "common/files/durable_file.h"
#include "common/files/hash.h"
#include "common/files/safetensors/safetensors_blocks.h"
#include "common/parallel_for.h"

namespace coxswain {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRuns = 5;
constexpr int64_t kTensors = 8;

struct Variant {
  std::string name;
  std::function<absl::Status()> run;
  std::vector<double> rates = {};  // MB/s
};

// One thread digests and appends what is to be written, a tensor after the other.
absl::Status WriteWhole(const std::string& path, const std::vector<std::string>& tensors) {
  absl::StatusOr<std::unique_ptr<DurableFile>> file = DurableFile::Create(path);
  if (!file.ok()) return file.status();
  Sha256Stream hash;
  for (const std::string& tensor : tensors) {
    hash.Update(tensor);
    if (absl::Status status = (*file)->Append(tensor); !status.ok()) return status;
  }
  (void)hash.Finish();
  return (*file)->Commit();
}

std::vector<TensorInMemory> Views(const std::vector<std::string>& tensors) {
  std::vector<TensorInMemory> views;
  for (const std::string& tensor : tensors) {
    views.push_back({.form = {"tensor" + std::to_string(views.size()),
                              ElementType::kU8,
                              {static_cast<int64_t>(tensor.size())}},
                     .data = tensor.data()});
  }
  return views;
}

absl::Status Sha256OfBlocks(const std::vector<std::string>& tensors, int threads) {
  return ParallelFor(static_cast<int64_t>(tensors.size()), threads, [&](int64_t i) {
    const std::string& tensor = tensors[static_cast<size_t>(i)];
    for (size_t at = 0; at < tensor.size(); at += kDigestBlockBytes) {
      (void)Sha256(std::string_view(tensor).substr(at, kDigestBlockBytes));
    }
    return absl::OkStatus();
  });
}

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

int Main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "/tmp";
  const int64_t megabytes = argc > 2 ? std::atoll(argv[2]) : 512;
  const std::string path = folder + "/checkpoint_bench." + std::to_string(getpid());
  std::vector<std::string> tensors(
      kTensors, std::string(static_cast<size_t>(megabytes * 1'000'000 / kTensors), 'x'));
  const std::vector<TensorInMemory> views = Views(tensors);
  const auto written = WriteSafetensorsBlocks(path, views, {}, {.threads = FileThreads()});
  Check(written.status());
  std::vector<Variant> variants = {
      {"write, SHA-256 of the file, 1 thread", [&] { return WriteWhole(path, tensors); }}};
  std::vector<int> threads;
  for (int n = 1; n < FileThreads(); n *= 2) threads.push_back(n);
  threads.push_back(FileThreads());
  for (const int n : threads) {
    variants.push_back({"write, XXH3 of blocks, " + std::to_string(n) + " threads", [&, n] {
                          return WriteSafetensorsBlocks(path, views, {}, {.threads = n}).status();
                        }});
  }
  variants.push_back(
      {"check, SHA-256 of the file, 1 thread", [&] { return Sha256HexOfFile(path).status(); }});
  for (const int n : threads) {
    variants.push_back({"check, XXH3 of blocks, " + std::to_string(n) + " threads",
                        [&, n] { return CheckBlocksOfFile(path, *written, {.threads = n}); }});
  }
  for (const int n : threads) {
    variants.push_back({"in memory, SHA-256 of blocks, " + std::to_string(n) + " threads",
                        [&, n] { return Sha256OfBlocks(tensors, n); }});
  }
  for (int run = 0; run < kRuns; ++run) {
    for (Variant& variant : variants) {
      const auto start = Clock::now();
      Check(variant.run());
      const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
      variant.rates.push_back(static_cast<double>(megabytes) / seconds);
    }
  }
  std::filesystem::remove(path);
  nlohmann::json rows = nlohmann::json::array();
  std::printf("%s, %s, %lld MB\n", bench::Machine().c_str(), folder.c_str(),
              static_cast<long long>(megabytes));
  for (Variant& variant : variants) {
    std::sort(variant.rates.begin(), variant.rates.end());
    const double median = variant.rates[kRuns / 2], slowest = variant.rates.front();
    std::printf("%-45s %8.0f MB/s, slowest %8.0f\n", variant.name.c_str(), median, slowest);
    rows.push_back({{"what", variant.name}, {"median_mb_per_s", median}, {"slowest", slowest}});
  }
  bench::WriteResults("bench/results/checkpoint.json",
                      {{"folder", folder}, {"megabytes", megabytes}, {"rows", rows}});
  return 0;
}

}  // namespace
}  // namespace coxswain

int main(int argc, char** argv) { return coxswain::Main(argc, argv); }
