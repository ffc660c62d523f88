// gpu_tests: every test that needs a GPU, in one binary. Says so and ends with 77 where there is
// none.
#include <gtest/gtest.h>

#include <cstdio>

#include "kernels/device.h"

namespace {
constexpr int kSkipped = 77;
}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  try {
    const coxswain::kernels::DeviceDescription device = coxswain::kernels::SelectDevice(0);
    std::printf("on %s\n", device.name.c_str());
  } catch (const coxswain::kernels::DeviceError& error) {
    std::printf("skipped: %s\n", error.what());
    return kSkipped;
  }
  return RUN_ALL_TESTS();
}
