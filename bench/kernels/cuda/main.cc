// Times every op of the CUDA library at the extents of two models.
//   gpu_bench [--only TEXT]... [--json FILE] [--energy SECONDS]
// See harness.h for how a time is taken. Bytes are an op's least traffic (inputs read once, outputs
// written once, updates both), FLOPs those of its matrix products; a percentage is the time that
// the device copy or the best matrix product, both measured first in this run, would need for them,
// over the median. --only times the ops whose name contains a TEXT. --energy launches each for
// SECONDS more between two readings of the driver's counter, and ranks the ops by it. FILE is
// written after every row: a run that is cut short keeps what it has, without gpu_after.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "bench/kernels/cuda/harness.h"
#include "bench/report.h"
#include "common/identity.h"
#include "kernels/products/gemm.h"

namespace coxswain::kernels::bench {
namespace {

std::string Version(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

nlohmann::json Versions() {
  int driver = 0, runtime = 0;
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&runtime);
  return {{"cuda_driver", Version(driver)}, {"cuda_runtime", Version(runtime)}};
}

void BenchAll(Bench* bench) {
  bench->MeasureCopy();
  for (auto* family :
       {BenchGemmPeak,    BenchLmHead,      BenchOptimizer,   BenchNorms,        BenchRotations,
        BenchActivations, BenchGatedLinear, BenchGrouped,     BenchGroupedGated, BenchLoss,
        BenchRows,        BenchExperts,     BenchElementwise, BenchAttention,    BenchAttentionFp8,
        BenchLora,        BenchGemm,        BenchResidual,    BenchRotated,      BenchQuantized,
        BenchFp8,         BenchGroupedFp8}) {
    family(bench);
  }
}

int Main(int argc, char** argv) {
  std::vector<std::string> only;
  std::string json_path;
  double energy_seconds = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--only") only.emplace_back(argv[i + 1]);
    if (flag == "--json") json_path = argv[i + 1];
    if (flag == "--energy") energy_seconds = std::stod(argv[i + 1]);
  }
  const DeviceDescription device = SelectDevice(0);
  Stream* stream = CreateStream();
  const nlohmann::json versions = Versions(), before = coxswain::bench::GpuState();
  std::printf("%s, commit %s, CUDA %s (driver %s)\nbefore: %s\n", DeviceFingerprint().c_str(),
              std::string(BuildCommit()).c_str(),
              versions["cuda_runtime"].get<std::string>().c_str(),
              before.is_null() ? "?" : before["driver"].get<std::string>().c_str(),
              coxswain::bench::GpuStateText(before).c_str());
  std::printf("%-44s %-22s %10s %10s %9s %9s %8s %8s of\n", "op", "extents", "median us", "p90 us",
              "MB", "GB/s", "TFLOP/s", "");
  const auto save = [&](const Bench& of, const nlohmann::json& after) {
    if (json_path.empty()) return;
    nlohmann::json results = of.results();
    results["device"] = DeviceFingerprint();
    results["versions"] = versions;
    results["gpu_before"] = before;
    if (!after.is_null()) results["gpu_after"] = after;
    results["gemm_table"] = nlohmann::json::parse(GemmTable(), nullptr, false);
    coxswain::bench::WriteResults(json_path, std::move(results));
  };
  Bench bench(stream, only, device.pci_bus, energy_seconds,
              [&](const Bench& of) { save(of, nullptr); });
  BenchAll(&bench);
  const nlohmann::json after = coxswain::bench::GpuState();
  save(bench, after);
  bench.PrintByEnergy();
  std::printf("after: %s\n", coxswain::bench::GpuStateText(after).c_str());
  DestroyStream(stream);
  return 0;
}

}  // namespace
}  // namespace coxswain::kernels::bench

int main(int argc, char** argv) {
  try {
    return coxswain::kernels::bench::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_bench: %s\n", error.what());
    return 1;
  }
}
