#include <gtest/gtest.h>

#include "kernels/cuda/stream.h"
#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {
namespace gpu_shared_memory_test {
namespace {

__global__ void FillKernel(float* out, int count) {
  extern __shared__ float shared[];
  for (int i = threadIdx.x; i < count; i += blockDim.x) shared[i] = static_cast<float>(i);
  __syncthreads();
  if (threadIdx.x == 0) *out += shared[count - 1];
}

// A graph that was recorded before a smaller launch of the same kernel still runs: so do tools that
// launch its kernels one by one.
TEST(SharedMemoryGpuTest, ASmallerLaunchTakesNothingFromALargerOne) {
  constexpr int kLarge = 90 * 1024, kSmall = 60 * 1024;
  cuda::AllowSharedMemory(FillKernel, kLarge, "FillKernel");
  cuda::AllowSharedMemory(FillKernel, kSmall, "FillKernel");
  const DeviceTensor out(DType::kFloat32, Floats{0.0f});
  FillKernel<<<1, 128, kLarge, cuda::Handle(TestStream())>>>(out.floats(), kLarge / 4);
  cuda::CheckLaunch("FillKernel");
  EXPECT_EQ(out.Read(), Floats{kLarge / 4 - 1});
}

TEST(SharedMemoryGpuTest, MoreThanABlockHasIsAnErrorOfThatCallAlone) {
  EXPECT_THROW(cuda::AllowSharedMemory(FillKernel, 1 << 20, "Fill"), DeviceError);
  cuda::CheckLaunch("a launch behind it");
}

}  // namespace
}  // namespace gpu_shared_memory_test
}  // namespace coxswain::kernels
