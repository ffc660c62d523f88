// The GPUs that are known by name: what their makers publish, and what was measured on them.
#ifndef COXSWAIN_COMMON_GPU_TABLE_H_
#define COXSWAIN_COMMON_GPU_TABLE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace coxswain {

// What a training step reaches on a GPU, of which a time is predicted.
struct GpuRates {
  double product_flops_per_second = 0;  // of bfloat16 products
  double copy_bytes_per_second = 0;     // of memory, read + written
  bool operator==(const GpuRates&) const = default;
};

// What a worker measured on its GPU (worker/engine/device/gpu_probe.h). 0: not measured.
struct GpuProbe {
  double product_flops_per_second = 0;
  double copy_bytes_per_second = 0;
};

struct GpuKind {
  std::string_view name;                       // in `cox plan --gpu`: "H100 SXM"
  std::vector<std::string_view> driver_names;  // whole names, as CUDA gives them
  int32_t compute_capability = 0;              // x 10
  // Published: dense bfloat16 products with float32 sums, and memory.
  double peak_flops_per_second = 0;
  double peak_bytes_per_second = 0;
  uint64_t memory_bytes = 0;
  // Measured; absent: on no GPU of this kind. A part of what is published stands for nothing: the
  // two kinds that were measured have one chip and one limit of power, and say nothing of others.
  std::optional<GpuRates> rates = std::nullopt;
  uint64_t measured_plannable_bytes = 0;  // what a worker of it may plan with; 0: not measured

  // That, or what is published less the GiB that a worker leaves.
  uint64_t plannable_bytes() const;
};

std::span<const GpuKind> KnownGpus();

// By the name that the driver gives; null: not known. A part of a GPU (MIG) has another name.
const GpuKind* FindGpu(std::string_view driver_name);

// By the name of a user, in any case, of the table or of the driver. InvalidArgument lists the
// names of the table.
absl::StatusOr<GpuKind> GpuNamed(std::string_view name);

// The share of a probe's product rate that the products of a training step reach: they have other
// shapes, and the GPU gets hot. Source: the product of 8192 x 8192 x 8192 of gpu_bench, median of
// the files of bench/results, 698 TFLOP/s on H200 and 731 on H100, beside the rates of the table.
inline constexpr double kSustainedOfProbe = 0.9;

// A GPU as a prediction needs it.
struct Gpu {
  std::string name = {};  // of the table, else of the driver; empty: not known
  // Measured on GPUs of this name, or kSustainedOfProbe of what its worker measured; absent:
  // neither is there, and no time is predicted.
  std::optional<GpuRates> rates = std::nullopt;
  bool probed = false;  // the rates are its worker's
  // Operations per second of which a utilisation (MFU) is a part: the published peak, or the
  // product rate of the probe where the table does not know the GPU. 0: neither is there.
  double peak_flops_per_second = 0;
};
Gpu GpuOf(std::string_view driver_name, const GpuProbe& probe = {});

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_GPU_TABLE_H_
