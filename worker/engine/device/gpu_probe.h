// Measures how fast the device multiplies and copies. A worker does it once, before it registers,
// where the table of GPUs has no rates for its own.
#ifndef COXSWAIN_WORKER_ENGINE_DEVICE_GPU_PROBE_H_
#define COXSWAIN_WORKER_ENGINE_DEVICE_GPU_PROBE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/gpu_table.h"
#include "kernels/dtype.h"

namespace coxswain::engine {

struct ProbeSize {
  kernels::DType dtype = kernels::DType::kBFloat16;
  // [rows, inner] by [columns, inner]^T. No linear has these columns, so that the choice of an
  // algorithm for the probe, which joins the GEMM table, is no model's.
  int64_t rows = 8192, inner = 8192, columns = 7936;
  int64_t copied_bytes = int64_t{1} << 30;  // far beyond the caches
};

// Launches products and copies of random numbers for a few tenths of a second and returns their
// median rates. Takes 2 x copied_bytes of device memory, the product 380 MB of it, and gives it
// back. The device is open, and no engine of this process runs. ResourceExhausted where the memory
// is not there.
absl::StatusOr<GpuProbe> ProbeGpu(const ProbeSize& size = {});

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_DEVICE_GPU_PROBE_H_
