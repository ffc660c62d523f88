// Bandwidth of the collectives among the GPUs of one host, a process for each.
//   gpu_comm_bench [--gpus N] [--largest-mib 2048] [--json FILE]
// As nccl-tests define them: size S = bytes of the whole vector, W ranks, t = time of one of
// several calls in a row; algorithm bandwidth S / t; bus bandwidth = that x 2 (W-1)/W for
// all-reduce, x (W-1)/W for reduce-scatter and all-gather. "host us" is what one call costs the
// calling thread.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "kernels/device.h"
#include "tests/worker/comm/file_rendezvous.h"
#include "tests/worker/comm/rank_processes.h"
#include "worker/comm/collectives.h"

namespace coxswain::comm {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int kWarmUp = 3;
constexpr double kSecondsPerRow = 0.25;

struct Measured {
  double seconds = 0;       // of one call, on the device
  double host_seconds = 0;  // of the calling thread
};

class Bench {
 public:
  Bench(Collectives* group, int64_t largest)
      : group_(*group),
        stream_(kernels::CreateStream()),
        begin_(kernels::CreateEvent()),
        end_(kernels::CreateEvent()),
        largest_(largest),
        data_(static_cast<char*>(kernels::AllocateMemory(largest))) {
    kernels::SetMemory(data_, 0, largest, stream_);
  }

  // From now on large gathers and reductions are copies, where the host allows it.
  void Share() { Check(group_.Share({{data_, largest_}})); }

  // [{op, dtype, bytes, us, algorithm_gb_per_s, bus_gb_per_s, host_us}] of one size.
  void Row(const char* op, kernels::DType dtype, int64_t bytes, nlohmann::json* rows) {
    const int64_t world = group_.world_size(), element = kernels::DTypeBytes(dtype);
    const int64_t part = bytes / element / world;
    char* const own = data_ + group_.rank() * part * element;
    const std::string name = op;
    const auto call = [&] {
      if (name == "all_reduce") {
        return group_.AllReduceSum(Communicator::kWorld, data_, bytes / element, dtype, stream_);
      }
      if (name == "reduce_scatter") {
        return group_.ReduceScatterSum(Communicator::kWorld, data_, own, part, dtype, stream_);
      }
      return group_.AllGather(Communicator::kWorld, own, data_, part, dtype, stream_);
    };
    const Measured once = Time(1, call);
    const Measured measured =
        Time(std::clamp(static_cast<int>(kSecondsPerRow / once.seconds), 5, 2000), call);
    const double share = static_cast<double>(world - 1) / static_cast<double>(world);
    const double speed = static_cast<double>(bytes) / measured.seconds * 1e-9;
    rows->push_back({{"op", op},
                     {"transport", group_.transport()},
                     {"dtype", dtype == kernels::DType::kFloat32 ? "float32" : "bfloat16"},
                     {"bytes", bytes},
                     {"us", measured.seconds * 1e6},
                     {"algorithm_gb_per_s", speed},
                     {"bus_gb_per_s", speed * share * (name == "all_reduce" ? 2 : 1)},
                     {"host_us", measured.host_seconds * 1e6}});
  }

 private:
  // The number of calls is the same on all ranks: rank 0's word counts.
  int Agree(int calls) {
    double value = group_.rank() == 0 ? calls : 0;
    auto* word = reinterpret_cast<double*>(data_);
    kernels::CopyMemory(word, &value, sizeof(value), nullptr);
    Check(group_.AllReduceSum(Communicator::kWorld, word, 1, stream_));
    kernels::Synchronize(stream_);
    kernels::CopyMemory(&value, word, sizeof(value), nullptr);
    kernels::SetMemory(data_, 0, sizeof(value), stream_);
    return static_cast<int>(value);
  }

  Measured Time(int wanted, const std::function<absl::Status()>& call) {
    const int calls = Agree(wanted);
    for (int i = 0; i < kWarmUp; ++i) Check(call());
    Check(group_.Barrier());
    kernels::RecordEvent(begin_, stream_);
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) Check(call());
    const std::chrono::duration<double> host = std::chrono::steady_clock::now() - start;
    kernels::RecordEvent(end_, stream_);
    kernels::Synchronize(stream_);
    Check(group_.Poll());
    return {kernels::SecondsBetween(begin_, end_) / calls, host.count() / calls};
  }

  static void Check(const absl::Status& status) {
    if (status.ok()) return;
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    std::_Exit(1);
  }

  // The process ends with the bench: nothing is freed.
  Collectives& group_;
  kernels::Stream* const stream_;
  kernels::Event *const begin_, *const end_;
  const int64_t largest_;
  char* const data_;
};

void Print(const nlohmann::json& rows) {
  std::printf("%-14s %-9s %10s %12s %10s %10s %9s  %s\n", "op", "dtype", "MiB", "us", "alg GB/s",
              "bus GB/s", "host us", "transport");
  for (const auto& row : rows) {
    std::printf("%-14s %-9s %10.3f %12.1f %10.1f %10.1f %9.1f  %s\n",
                row["op"].get<std::string>().c_str(), row["dtype"].get<std::string>().c_str(),
                row["bytes"].get<double>() / static_cast<double>(kMiB), row["us"].get<double>(),
                row["algorithm_gb_per_s"].get<double>(), row["bus_gb_per_s"].get<double>(),
                row["host_us"].get<double>(), row["transport"].get<std::string>().c_str());
  }
}

int RunRank(const RankProcess& rank, int64_t largest, const std::string& json_file) {
  const kernels::DeviceDescription device = kernels::SelectDevice(0);
  GroupConfig config;
  config.rank = rank.rank;
  config.world_size = rank.world;
  FileRendezvous rendezvous(rank.folder);
  const auto start = std::chrono::steady_clock::now();
  const auto group = Collectives::Form(config, &rendezvous);
  if (!group.ok()) {
    std::fprintf(stderr, "%s\n", group.status().ToString().c_str());
    return 1;
  }
  const std::chrono::duration<double> forming = std::chrono::steady_clock::now() - start;
  const int64_t used = kernels::UsedMemoryBytes();
  Bench bench(group->get(), largest);
  nlohmann::json rows = nlohmann::json::array();
  const auto measure = [&](const char* op) {
    bench.Row(op, kernels::DType::kFloat32, 4096, &rows);
    bench.Row(op, kernels::DType::kFloat32, kMiB, &rows);
    for (int64_t bytes = 32 * kMiB; bytes <= largest; bytes *= 2) {
      bench.Row(op, kernels::DType::kBFloat16, bytes, &rows);
    }
    bench.Row(op, kernels::DType::kFloat32, std::min(largest, 512 * kMiB), &rows);
  };
  for (const char* op : {"all_reduce", "reduce_scatter", "all_gather"}) measure(op);
  bench.Share();
  for (const char* op : {"reduce_scatter", "all_gather"}) measure(op);
  if (rank.rank == 0) {
    std::printf("%d x %s, %s: group formed in %.2f s, %.2f GiB of each GPU in use\n", rank.world,
                device.name.c_str(), Collectives::Fingerprint().c_str(), forming.count(),
                static_cast<double>(used) / static_cast<double>(1024 * kMiB));
    Print(rows);
    const nlohmann::json report = {{"device", device.name},
                                   {"world", rank.world},
                                   {"library", Collectives::Fingerprint()},
                                   {"forming_seconds", forming.count()},
                                   {"used_bytes", used},
                                   {"rows", rows}};
    if (!json_file.empty()) std::ofstream(json_file) << report.dump(1) << "\n";
  }
  std::fflush(nullptr);
  const bool together = (*group)->Barrier().ok();  // no rank leaves while another is in a call
  std::_Exit(together ? 0 : 1);
}

int Run(int argc, char** argv) {
  int gpus = 0;
  int64_t largest_mib = 2048;
  std::string json_file;
  CLI::App app{"bandwidth of the collectives among the GPUs of this host"};
  app.add_option("--gpus", gpus, "ranks (default: all GPUs)")->check(CLI::Range(2, 1024));
  app.add_option("--largest-mib", largest_mib, "largest vector")->check(CLI::Range(32, 65536));
  app.add_option("--json", json_file, "file of the report");
  CLI11_PARSE(app, argc, argv);
  if (const auto rank = RankOfThisProcess()) return RunRank(*rank, largest_mib * kMiB, json_file);
  if (gpus == 0) gpus = CountGpus();
  if (gpus < 2) {
    std::printf("at least 2 GPUs are needed\n");
    return 77;
  }
  return RunRanks(gpus, argv);
}

}  // namespace
}  // namespace coxswain::comm

int main(int argc, char** argv) { return coxswain::comm::Run(argc, argv); }
