#include "common/gpu_table.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace coxswain {
namespace {

constexpr uint64_t kGib = uint64_t{1} << 30, kGb = 1'000'000'000;

// Published. Source: NVIDIA's data sheets of H200, H100, A100 80GB and 40GB, L40S and DGX B200
// (peaks with sparsity are halved); of RTX 4090 the whitepaper "NVIDIA Ada GPU Architecture", of
// RTX 5090 "NVIDIA RTX Blackwell GPU Architecture" (bfloat16 with float32 sums).
// Measured. Source: bench/results, under sustained load at 700 W: products and copies so that the
// steps of its files take the time that they took (tests/bench/recorded_steps_test.cc), copies as
// gpu_bench's device copy; memory as workers said, in whole GiB.
std::vector<GpuKind> MakeTable() {
  return {
      {.name = "H200",
       .driver_names = {"NVIDIA H200"},
       .compute_capability = 90,
       .peak_flops_per_second = 989.4e12,
       .peak_bytes_per_second = 4.8e12,
       .memory_bytes = 141 * kGb,
       .rates = GpuRates{685e12, 4.28e12},
       .measured_plannable_bytes = 139 * kGib},
      {.name = "H100 SXM",
       .driver_names = {"NVIDIA H100 80GB HBM3"},
       .compute_capability = 90,
       .peak_flops_per_second = 989.4e12,
       .peak_bytes_per_second = 3.35e12,
       .memory_bytes = 80 * kGb,
       .rates = GpuRates{685e12, 3.02e12},
       .measured_plannable_bytes = 79 * kGib},
      {"H200 NVL", {"NVIDIA H200 NVL"}, 90, 835.5e12, 4.8e12, 141 * kGb},
      {"H100 NVL", {"NVIDIA H100 NVL"}, 90, 835.5e12, 3.9e12, 94 * kGb},
      {"H100 PCIe", {"NVIDIA H100 PCIe"}, 90, 756.5e12, 2.0e12, 80 * kGb},
      {"B200", {"NVIDIA B200"}, 100, 2250e12, 8.0e12, 180 * kGb},
      {"A100 SXM 80GB", {"NVIDIA A100-SXM4-80GB"}, 80, 312e12, 2.039e12, 80 * kGb},
      {"A100 SXM 40GB", {"NVIDIA A100-SXM4-40GB"}, 80, 312e12, 1.555e12, 40 * kGb},
      {"A100 PCIe 80GB", {"NVIDIA A100 80GB PCIe"}, 80, 312e12, 1.935e12, 80 * kGb},
      {"A100 PCIe 40GB", {"NVIDIA A100-PCIE-40GB"}, 80, 312e12, 1.555e12, 40 * kGb},
      {"L40S", {"NVIDIA L40S"}, 89, 362.05e12, 0.864e12, 48 * kGb},
      {"RTX 4090", {"NVIDIA GeForce RTX 4090"}, 89, 165.2e12, 1.008e12, 24 * kGb},
      {"RTX 5090", {"NVIDIA GeForce RTX 5090"}, 120, 209.5e12, 1.792e12, 32 * kGb},
  };
}

const std::vector<GpuKind>& Table() {
  static const auto* const kTable = new std::vector<GpuKind>(MakeTable());
  return *kTable;
}

}  // namespace

uint64_t GpuKind::plannable_bytes() const {
  return measured_plannable_bytes > 0 ? measured_plannable_bytes : memory_bytes - kGib;
}

std::span<const GpuKind> KnownGpus() { return Table(); }

const GpuKind* FindGpu(std::string_view driver_name) {
  for (const GpuKind& kind : Table()) {
    if (std::ranges::find(kind.driver_names, driver_name) != kind.driver_names.end()) return &kind;
  }
  return nullptr;
}

absl::StatusOr<GpuKind> GpuNamed(std::string_view name) {
  for (const GpuKind& kind : Table()) {
    const auto same = [name](std::string_view known) {
      return absl::EqualsIgnoreCase({known.data(), known.size()}, {name.data(), name.size()});
    };
    if (same(kind.name) || std::ranges::any_of(kind.driver_names, same)) return kind;
  }
  const auto quoted = [](std::string* out, const GpuKind& kind) {
    absl::StrAppend(out, "\"", std::string(kind.name), "\"");
  };
  return absl::InvalidArgumentError(
      absl::StrCat("GPU \"", std::string(name), "\" is not known, only ",
                   absl::StrJoin(Table(), ", ", quoted), ": take one of these"));
}

Gpu GpuOf(std::string_view driver_name, const GpuProbe& probe) {
  const GpuKind* const kind = FindGpu(driver_name);
  if (kind == nullptr && driver_name.empty()) return {};
  Gpu gpu{.name = std::string(kind != nullptr ? kind->name : driver_name),
          .peak_flops_per_second =
              kind != nullptr ? kind->peak_flops_per_second : probe.product_flops_per_second};
  if (kind != nullptr && kind->rates) {
    gpu.rates = kind->rates;
  } else if (probe.product_flops_per_second > 0 && probe.copy_bytes_per_second > 0) {
    gpu.probed = true;
    gpu.rates = {kSustainedOfProbe * probe.product_flops_per_second, probe.copy_bytes_per_second};
  }
  return gpu;
}

}  // namespace coxswain
