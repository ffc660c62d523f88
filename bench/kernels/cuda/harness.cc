#include "bench/kernels/cuda/harness.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <deque>
#include <exception>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "bench/energy.h"

namespace coxswain::kernels::bench {
namespace {

constexpr int64_t kRotatedBytes = int64_t{512} << 20;  // eight times the L2 cache of an H200
constexpr int64_t kPattern = int64_t{4} << 20;         // elements of the random values
constexpr int kMaxSets = 16, kMaxLaunches = 64;
constexpr double kGraphSeconds = 5e-4;  // of one replay: an event costs a microsecond
constexpr int kWarmUp = 20, kSamples = 50, kFewestSamples = 10;
constexpr double kRowSeconds = 0.25;  // samples are fewer where 50 would take longer

// The random values that every buffer repeats, on the device.
const void* Pattern(DType dtype) {
  static const auto patterns = [] {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> values(kPattern);
    std::vector<uint16_t> halves(kPattern);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = normal(random);
      const auto bits = std::bit_cast<uint32_t>(values[i]);
      halves[i] = static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
    }
    void* floats = AllocateMemory(kPattern * 4);
    void* bfloats = AllocateMemory(kPattern * 2);
    CopyMemory(floats, values.data(), kPattern * 4, nullptr);
    CopyMemory(bfloats, halves.data(), kPattern * 2, nullptr);
    return std::pair<const void*, const void*>(floats, bfloats);
  }();
  return dtype == DType::kFloat32 ? patterns.first : patterns.second;
}

struct EventDeleter {
  void operator()(Event* event) const { DestroyEvent(event); }
};
using OwnedEvent = std::unique_ptr<Event, EventDeleter>;

struct GraphDeleter {
  void operator()(Graph* graph) const { DestroyGraph(graph); }
};
using OwnedGraph = std::unique_ptr<Graph, GraphDeleter>;

// Seconds of each call of `replay`, issued back to back.
std::vector<double> Intervals(int count, const std::function<void()>& replay, Stream* stream) {
  std::vector<OwnedEvent> events;
  for (int i = 0; i <= count; ++i) events.emplace_back(CreateEvent());
  RecordEvent(events[0].get(), stream);
  for (int i = 1; i <= count; ++i) {
    replay();
    RecordEvent(events[static_cast<size_t>(i)].get(), stream);
  }
  Synchronize(stream);
  std::vector<double> seconds;
  for (size_t i = 1; i < events.size(); ++i) {
    seconds.push_back(SecondsBetween(events[i - 1].get(), events[i].get()));
  }
  return seconds;
}

}  // namespace

Memory::~Memory() {
  for (void* buffer : buffers_) FreeMemory(buffer);
}

void* Memory::Allocate(int64_t bytes) {
  buffers_.push_back(AllocateMemory(std::max<int64_t>(bytes, 1)));
  bytes_ += bytes;
  return buffers_.back();
}

void* Memory::Zeros(int64_t bytes) {
  void* data = Allocate(bytes);
  SetMemory(data, 0, bytes, nullptr);
  return data;
}

// Each buffer starts elsewhere in the pattern, so that two operands differ.
void* Memory::Values(DType dtype, int64_t count) {
  const int64_t element = DTypeBytes(dtype);
  const auto* pattern = static_cast<const char*>(Pattern(dtype));
  auto* data = static_cast<char*>(Allocate(count * element));
  int64_t from = static_cast<int64_t>(buffers_.size()) * 65536 % kPattern;
  for (int64_t done = 0; done < count;) {
    const int64_t part = std::min(count - done, kPattern - from);
    CopyMemory(data + done * element, pattern + from * element, part * element, nullptr);
    done += part;
    from = 0;
  }
  return data;
}

Timing Bench::Replay(const std::vector<Launch>& launches) {
  const auto once = [&] {
    for (const Launch& launch : launches) launch(stream_);
  };
  once();  // algorithms are chosen, modules loaded
  Synchronize(stream_);
  const std::vector<double> first = Intervals(3, once, stream_);
  const double sets = static_cast<double>(launches.size());
  const double estimate = *std::min_element(first.begin(), first.end()) / sets;
  const int rounds = static_cast<int>(std::clamp(std::ceil(kGraphSeconds / (estimate * sets)), 1.0,
                                                 std::max(1.0, kMaxLaunches / sets)));
  const OwnedGraph graph(CaptureGraph(
      [&] {
        for (int round = 0; round < rounds; ++round) once();
      },
      stream_));
  const auto replay = [&] { LaunchGraph(graph.get(), stream_); };
  const double launches_of_graph = rounds * sets;
  (void)Intervals(static_cast<int>(std::ceil(kWarmUp / launches_of_graph)), replay, stream_);
  const double affordable = kRowSeconds / (estimate * launches_of_graph);
  const int samples =
      static_cast<int>(std::clamp(affordable, double{kFewestSamples}, double{kSamples}));
  std::vector<double> seconds = Intervals(samples, replay, stream_);
  std::sort(seconds.begin(), seconds.end());
  const auto at = [&](size_t index) { return seconds[index] / launches_of_graph; };
  Timing timing{.median = at(seconds.size() / 2),
                .p20 = at(seconds.size() / 5),
                .p80 = at(seconds.size() * 4 / 5),
                .p90 = at(seconds.size() * 9 / 10),
                .samples = samples};
  if (const auto watts = WattsOf(replay, timing.median * launches_of_graph)) {
    timing.joules = *watts * timing.median;
  }
  return timing;
}

std::optional<double> Bench::WattsOf(const std::function<void()>& replay,
                                     double seconds_of_one) const {
  if (energy_seconds_ <= 0) return std::nullopt;
  const auto run = [&](double seconds) {
    const int count = static_cast<int>(std::ceil(seconds / seconds_of_one));
    for (int i = 0; i < count; ++i) replay();
    Synchronize(stream_);
  };
  run(energy_seconds_ / 4);  // the chip warms up to this op's power
  const coxswain::bench::EnergyMeter meter(pci_bus_);
  run(energy_seconds_);
  return meter.Watts();
}

bool Bench::Wanted(const std::string& name) const {
  return only_.empty() || std::any_of(only_.begin(), only_.end(), [&](const std::string& text) {
           return name.find(text) != std::string::npos;
         });
}

std::optional<Timing> Bench::Time(const Op& op) {
  if (!op.always && !Wanted(op.name)) return std::nullopt;
  nlohmann::json row = {{"op", op.name}, {"extents", op.extents}};
  if (!op.note.empty()) row["note"] = op.note;
  std::optional<Timing> timing;
  try {
    std::deque<Memory> sets(1);
    std::vector<Launch> launches = {op.make(&sets.back())};
    const int64_t bytes = std::max<int64_t>(sets.back().bytes(), 1);
    const int64_t wanted = std::min<int64_t>(kRotatedBytes / bytes + 1, kMaxSets);
    while (static_cast<int64_t>(launches.size()) < wanted) {
      launches.push_back(op.make(&sets.emplace_back()));
    }
    timing = Replay(launches);
    row["sets"] = launches.size();
    Print(op, *timing, &row);
  } catch (const DeviceError& error) {
    if (error.sticky()) throw;
    row["error"] = error.what();
  } catch (const std::exception& error) {
    row["error"] = error.what();
  }
  if (row.contains("error")) {
    std::printf("%-44s %-22s %s\n", op.name.c_str(), op.extents.c_str(),
                row["error"].get<std::string>().c_str());
  }
  std::fflush(stdout);
  rows_.push_back(std::move(row));
  save_(*this);
  return timing;
}

void Bench::Print(const Op& op, const Timing& timing, nlohmann::json* row) const {
  const double copy = copy_peak_ > 0 ? op.bytes / copy_peak_ : 0;
  const double gemm = gemm_peak_ > 0 ? op.flops / gemm_peak_ : 0;
  const double percent = 100 * std::max(copy, gemm) / timing.median;
  const char* roof = copy == 0 && gemm == 0 ? "-" : gemm > copy ? "gemm" : "copy";
  std::printf("%-44s %-22s %10.1f %10.1f %9.2f %9.0f %8.1f %6.1f %% %-4s %s\n", op.name.c_str(),
              op.extents.c_str(), timing.median * 1e6, timing.p90 * 1e6, op.bytes * 1e-6,
              op.bytes / timing.median * 1e-9, op.flops / timing.median * 1e-12, percent, roof,
              op.note.c_str());
  row->update({{"median_us", timing.median * 1e6},
               {"p20_us", timing.p20 * 1e6},
               {"p80_us", timing.p80 * 1e6},
               {"p90_us", timing.p90 * 1e6},
               {"samples", timing.samples},
               {"bytes", op.bytes},
               {"flops", op.flops},
               {"gb_per_s", op.bytes / timing.median * 1e-9},
               {"tflop_per_s", op.flops / timing.median * 1e-12},
               {"percent", percent},
               {"percent_of", roof}});
  if (timing.joules.has_value()) {
    row->update({{"joules", *timing.joules}, {"watts", *timing.joules / timing.median}});
  }
}

void Bench::PrintByEnergy() const {
  std::vector<const nlohmann::json*> rows;
  for (const nlohmann::json& row : rows_) {
    if (row.contains("joules")) rows.push_back(&row);
  }
  const auto value = [](const nlohmann::json* row, const char* key) {
    return row->at(key).get<double>();
  };
  std::stable_sort(rows.begin(), rows.end(), [&](const auto* a, const auto* b) {
    return value(a, "joules") > value(b, "joules");
  });
  if (!rows.empty()) std::printf("by energy of a launch\n");
  for (const nlohmann::json* row : rows) {
    std::printf("%-44s %-22s %10.4f J %6.0f W %10.1f us\n",
                row->at("op").get<std::string>().c_str(),
                row->at("extents").get<std::string>().c_str(), value(row, "joules"),
                value(row, "watts"), value(row, "median_us"));
  }
}

// Launched one by one: inside a graph the driver leaves a copy to the slower copy engines.
void Bench::MeasureCopy() {
  constexpr int64_t kBytes = int64_t{2} << 30;
  Memory memory;
  const void* from = memory.BFloat16(kBytes / 2);
  void* to = memory.Zeros(kBytes);
  const auto copy = [&] { CopyMemory(to, from, kBytes, stream_); };
  (void)Intervals(kWarmUp, copy, stream_);
  std::vector<double> seconds = Intervals(kSamples, copy, stream_);
  std::sort(seconds.begin(), seconds.end());
  const Timing timing{.median = seconds[seconds.size() / 2],
                      .p20 = seconds[seconds.size() / 5],
                      .p80 = seconds[seconds.size() * 4 / 5],
                      .p90 = seconds[seconds.size() * 9 / 10],
                      .samples = static_cast<int>(seconds.size())};
  nlohmann::json row = {{"op", "device copy"}, {"extents", "2 GiB"}};
  Op op;
  op.name = "device copy";
  op.extents = "2 GiB";
  op.bytes = 2.0 * kBytes;
  Print(op, timing, &row);
  rows_.push_back(std::move(row));
  copy_peak_ = 2.0 * kBytes / timing.median;
}

void Bench::AddLine(const std::string& name, const std::string& text, nlohmann::json values) {
  std::printf("%-44s %s\n", name.c_str(), text.c_str());
  values["line"] = name;
  lines_.push_back(std::move(values));
  save_(*this);
}

nlohmann::json Bench::results() const {
  return {{"copy_gb_per_s", copy_peak_ * 1e-9},
          {"gemm_tflop_per_s", gemm_peak_ * 1e-12},
          {"rows", rows_},
          {"lines", lines_}};
}

std::string Extents(int64_t rows, int64_t columns) {
  return std::to_string(rows) + " x " + std::to_string(columns);
}

}  // namespace coxswain::kernels::bench
