#include "worker/engine/device/gpu_probe.h"

#include <functional>
#include <memory>
#include <string>

#include "kernels/products/gemm.h"
#include "kernels/tensors/whole_tensors.h"
#include "worker/engine/commands/executor.h"
#include "worker/engine/device/stopwatch.h"

namespace coxswain::engine {
namespace {

// The first launches of a product load its code. At the rates of an H200 the rest takes 50 ms of
// products and 15 ms of copies.
constexpr int kProbeWarmUps = 3, kProbeRuns = 32;

struct ProbeFree {
  void operator()(char* data) const { kernels::FreeMemory(data); }
};
using ProbeMemory = std::unique_ptr<char, ProbeFree>;

ProbeMemory ProbeAllocate(int64_t bytes) {
  return ProbeMemory(static_cast<char*>(kernels::AllocateMemory(bytes)));
}

// Of one launch.
double MeanSecondsOf(kernels::Stream* stream, const std::function<void()>& launch) {
  for (int run = 0; run < kProbeWarmUps; ++run) launch();
  Stopwatch watch;
  watch.Start(stream);
  for (int run = 0; run < kProbeRuns; ++run) launch();
  watch.Stop(stream);
  kernels::Synchronize(stream);
  return watch.Seconds() / kProbeRuns;
}

GpuProbe MeasureRates(const ProbeSize& size) {
  const StreamHandle stream;
  const int64_t bytes = kernels::DTypeBytes(size.dtype);
  const ProbeMemory from = ProbeAllocate(size.copied_bytes), to = ProbeAllocate(size.copied_bytes),
                    scratch = ProbeAllocate(kernels::GemmWorkspaceBytes());
  // Products of zeros take less power, and run at higher clocks, than those of a step.
  kernels::RandomFill({.dtype = size.dtype,
                       .kind = kernels::RandomFillKind::kNormal,
                       .value = 1,
                       .count = size.copied_bytes / bytes,
                       .out = from.get()},
                      stream.get());
  GpuProbe probe;
  probe.copy_bytes_per_second =
      2 * static_cast<double>(size.copied_bytes) / MeanSecondsOf(stream.get(), [&] {
        kernels::CopyMemory(to.get(), from.get(), size.copied_bytes, stream.get());
      });
  const kernels::GemmArgs product{
      .spec = {.dtype = size.dtype, .output_dtype = size.dtype, .transpose_b = true},
      .m = size.rows,
      .n = size.columns,
      .k = size.inner,
      .a = from.get(),
      .lda = size.inner,
      .b = from.get() + size.rows * size.inner * bytes,
      .ldb = size.inner,
      .c = to.get(),
      .ldc = size.columns,
      .workspace = {.data = scratch.get(), .bytes = kernels::GemmWorkspaceBytes()}};
  const double operations = 2.0 * static_cast<double>(size.rows) *
                            static_cast<double>(size.columns) * static_cast<double>(size.inner);
  probe.product_flops_per_second =
      operations / MeanSecondsOf(stream.get(), [&] { kernels::Gemm(product, stream.get()); });
  return probe;
}

}  // namespace

absl::StatusOr<GpuProbe> ProbeGpu(const ProbeSize& size) {
  GpuProbe probe;
  const std::string doing = "measuring the device's rates";
  const absl::Status status = RunGuarded(&doing, [&] {
    probe = MeasureRates(size);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return probe;
}

}  // namespace coxswain::engine
