#include "kernels/cuda/early_launch.cuh"

#include <gtest/gtest.h>

#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {
namespace gpu_early_launch_test {
namespace {

constexpr int kBlocks = 64, kThreads = 256, kCount = kBlocks * kThreads, kRounds = 20;

// Every element becomes `value`, the last block's long after the next kernel could have started.
__global__ void WriteLateKernel(int* data, int value) {
  cuda::LetNextStart();
  if (blockIdx.x == kBlocks - 1) {
    for (const auto began = clock64(); clock64() - began < 200'000;) {
    }
  }
  data[blockIdx.x * kThreads + threadIdx.x] = value;
}

// counts[value] grows by the elements that are `value`.
__global__ void CountKernel(const int* data, int value, int* counts) {
  cuda::WaitForPrevious();
  if (data[blockIdx.x * kThreads + threadIdx.x] == value) atomicAdd(counts + value, 1);
}

void LaunchRounds(int* data, int* counts) {
  for (int value = 0; value < kRounds; ++value) {
    WriteLateKernel<<<kBlocks, kThreads, 0, cuda::Handle(TestStream())>>>(data, value);
    cuda::LaunchEarly(CountKernel, kBlocks, kThreads, 0, cuda::Handle(TestStream()), "CountKernel",
                      static_cast<const int*>(data), value, counts);
  }
}

TEST(EarlyLaunchGpuTest, SeesAllThatThePreviousKernelWroteAndIsDoneBeforeTheNext) {
  const DeviceValues<int32_t> data(std::vector<int32_t>(kCount, -1));
  const DeviceValues<int32_t> counts(std::vector<int32_t>(kRounds, 0));
  LaunchRounds(data.data(), counts.data());
  EXPECT_EQ(counts.Read(), std::vector<int32_t>(kRounds, kCount));
}

TEST(EarlyLaunchGpuTest, CapturesAndReplays) {
  const DeviceValues<int32_t> data(std::vector<int32_t>(kCount, -1));
  const DeviceValues<int32_t> counts(std::vector<int32_t>(kRounds, 0));
  Graph* graph = CaptureGraph([&] { LaunchRounds(data.data(), counts.data()); }, TestStream());
  for (int replay = 0; replay < 3; ++replay) LaunchGraph(graph, TestStream());
  EXPECT_EQ(counts.Read(), std::vector<int32_t>(kRounds, 3 * kCount));
  DestroyGraph(graph);
}

}  // namespace
}  // namespace gpu_early_launch_test
}  // namespace coxswain::kernels
