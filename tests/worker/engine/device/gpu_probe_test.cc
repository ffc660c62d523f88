// A probe is of the device whose kernels are linked. tests/worker/engine/cuda holds that of a GPU.
#include "worker/engine/device/gpu_probe.h"

#include <gtest/gtest.h>

namespace coxswain::engine {
namespace gpu_probe_test {
namespace {

TEST(GpuProbeTest, MeasuresProductsAndCopies) {
  const auto probe = ProbeGpu({.dtype = kernels::DType::kFloat32,
                               .rows = 64,
                               .inner = 64,
                               .columns = 48,
                               .copied_bytes = int64_t{1} << 20});
  ASSERT_TRUE(probe.ok()) << probe.status();
  // What no thread of a CPU leaves: 1 MFLOP/s and 1 MB/s to 100 TFLOP/s and 100 TB/s.
  EXPECT_GT(probe->product_flops_per_second, 1e6);
  EXPECT_LT(probe->product_flops_per_second, 1e14);
  EXPECT_GT(probe->copy_bytes_per_second, 1e6);
  EXPECT_LT(probe->copy_bytes_per_second, 1e14);
}

}  // namespace
}  // namespace gpu_probe_test
}  // namespace coxswain::engine
