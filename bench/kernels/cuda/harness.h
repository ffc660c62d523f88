// Times ops of kernels on the device and puts them against what the device can do.
//
// A row is one op at one extent. Its launches are captured into a graph that walks over as many
// sets of buffers as exceed the L2 cache many times, so that inputs come from device memory; the
// graph is replayed, CUDA events stand between replays, and a time is one interval over the
// launches of the graph. That is how the engine runs them: without launch gaps of the host.
#ifndef COXSWAIN_BENCH_KERNELS_CUDA_HARNESS_H_
#define COXSWAIN_BENCH_KERNELS_CUDA_HARNESS_H_

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels::bench {

inline constexpr DType kBF16 = DType::kBFloat16, kF32 = DType::kFloat32;

// A model's extents and the tokens of one of its micro-steps.
struct Shape {
  const char* model;
  int64_t tokens, hidden, intermediate, vocab, layers, heads, kv_heads, head_dim;
  int64_t query() const { return heads * head_dim; }
  int64_t key() const { return kv_heads * head_dim; }
  int64_t packed() const { return query() + 2 * key(); }
};
// Qwen2.5-0.5B and 7B.
inline constexpr Shape kShapes[] = {
    {"0.5b", 32768, 896, 4864, 151936, 24, 14, 2, 64},
    {"7b", 8192, 3584, 18944, 152064, 28, 28, 4, 128},
};

// Device buffers that live as long as this object.
class Memory {
 public:
  Memory() = default;
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Normal values, mean 0: the speed of matrix products depends on their operands' bits.
  void* Values(DType dtype, int64_t count);
  void* BFloat16(int64_t count) { return Values(DType::kBFloat16, count); }
  float* Floats(int64_t count) { return static_cast<float*>(Values(DType::kFloat32, count)); }
  void* Zeros(int64_t bytes);
  Workspace Scratch(int64_t bytes) { return {Zeros(bytes), bytes}; }
  // Where an op finds the amax of what it stores; null unless wanted. ClearAmax: before a launch.
  float* Amax(bool wanted) { return wanted ? static_cast<float*>(Zeros(sizeof(float))) : nullptr; }
  template <typename T>
  T* Upload(const std::vector<T>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    void* data = Allocate(bytes);
    CopyMemory(data, values.data(), bytes, nullptr);
    return static_cast<T*>(data);
  }
  int64_t bytes() const { return bytes_; }

 private:
  void* Allocate(int64_t bytes);
  std::vector<void*> buffers_;
  int64_t bytes_ = 0;
};

using Launch = std::function<void(Stream*)>;

inline void ClearAmax(float* amax, Stream* stream) {
  if (amax != nullptr) SetMemory(amax, 0, sizeof(float), stream);
}
inline const char* WithAmax(bool wanted) { return wanted ? " with amax" : ""; }

struct Op {
  std::string name;
  std::string extents;  // printed
  double bytes = 0;     // least traffic: inputs read once, outputs written once, updates both
  double flops = 0;     // of matrix products, masked ones not counted
  // Makes a set of buffers and returns the launch on it.
  std::function<Launch(Memory*)> make;
  std::string note = "";  // printed behind the row
  bool always = false;    // whatever --only says: the percentages need it
};

struct Timing {
  double median = 0, p20 = 0, p80 = 0, p90 = 0;  // seconds of one launch
  int samples = 0;
  std::optional<double> joules =
      {};  // of one launch, with those before and after it; as Bench asks for
};

class Bench {
 public:
  // Only ops whose name contains one of `only` are timed; all when it is empty. The energy of each
  // is that of launches for `energy_seconds`; 0: not measured. `save` is called after every row.
  Bench(Stream* stream, std::vector<std::string> only, std::string pci_bus, double energy_seconds,
        std::function<void(const Bench&)> save)
      : stream_(stream),
        only_(std::move(only)),
        pci_bus_(std::move(pci_bus)),
        energy_seconds_(energy_seconds),
        save_(std::move(save)) {}

  Stream* stream() const { return stream_; }
  bool Wanted(const std::string& name) const;

  // Times the op, prints and keeps its row; empty when it is not wanted or failed, in which case
  // the row says why. A fault that loses the device is thrown on.
  std::optional<Timing> Time(const Op& op);
  // Device copy and a large matrix product: what percentages refer to. Before the rest.
  void MeasureCopy();
  void SetGemmPeak(double flops_per_second) { gemm_peak_ = flops_per_second; }
  // Prints and keeps a line that is not a time of one op, such as a sum.
  void AddLine(const std::string& name, const std::string& text, nlohmann::json values);

  // The ops by the energy of one launch, the most first; nothing where it was not measured.
  void PrintByEnergy() const;

  nlohmann::json results() const;

 private:
  Timing Replay(const std::vector<Launch>& launches);
  std::optional<double> WattsOf(const std::function<void()>& replay, double seconds_of_one) const;
  void Print(const Op& op, const Timing& timing, nlohmann::json* row) const;

  Stream* stream_;
  const std::vector<std::string> only_;
  const std::string pci_bus_;
  const double energy_seconds_;
  const std::function<void(const Bench&)> save_;
  double copy_peak_ = 0, gemm_peak_ = 0;  // bytes/s, FLOP/s
  nlohmann::json rows_ = nlohmann::json::array(), lines_ = nlohmann::json::array();
};

// "32768 x 896".
std::string Extents(int64_t rows, int64_t columns);

// The families, each in the file of its name.
void BenchGemmPeak(Bench* bench);
void BenchGemm(Bench* bench);
void BenchNorms(Bench* bench);
void BenchQuantized(Bench* bench);
void BenchFp8(Bench* bench);
void BenchResidual(Bench* bench);
void BenchRotated(Bench* bench);
void BenchRotations(Bench* bench);
void BenchActivations(Bench* bench);
void BenchGatedLinear(Bench* bench);
void BenchGrouped(Bench* bench);
void BenchGroupedFp8(Bench* bench);
void BenchGroupedGated(Bench* bench);
void BenchAttention(Bench* bench);
void BenchAttentionFp8(Bench* bench);
void BenchLoss(Bench* bench);
void BenchLmHead(Bench* bench);
void BenchLora(Bench* bench);
void BenchOptimizer(Bench* bench);
void BenchRows(Bench* bench);
void BenchExperts(Bench* bench);
void BenchElementwise(Bench* bench);

}  // namespace coxswain::kernels::bench

#endif  // COXSWAIN_BENCH_KERNELS_CUDA_HARNESS_H_
