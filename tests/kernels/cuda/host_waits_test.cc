// libsync_counter.so, preloaded by ctest: whether a call fails, as without a GPU, does not matter.
#include "bench/host_waits.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

namespace coxswain::bench {
namespace gpu_host_waits_test {
namespace {

TEST(HostWaitsTest, CountsWhatWaitsSinceTheMark) {
  (void)cudaDeviceSynchronize();
  CountHostWaits();
  EXPECT_EQ(CountedHostWaits().value().count, 0);
  (void)cudaStreamSynchronize(nullptr);
  (void)cudaStreamSynchronize(nullptr);
  char from = 1, to = 0;
  (void)cudaMemcpy(&to, &from, 1, cudaMemcpyHostToHost);
  (void)cudaStreamQuery(nullptr);
  const HostWaits waits = CountedHostWaits().value();
  EXPECT_EQ(waits.count, 3);
  EXPECT_EQ(waits.calls, "cudaStreamSynchronize 2, cudaMemcpy 1");
}

}  // namespace
}  // namespace gpu_host_waits_test
}  // namespace coxswain::bench
