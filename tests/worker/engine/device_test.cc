// Choosing the device, the table of GEMM choices, and what becomes of errors of the device.
#include "worker/engine/device.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "worker/engine/engine.h"
#include "worker/engine/executor.h"

namespace coxswain::engine {
namespace {

TEST(DeviceTest, TheCpuIsDevice0AndTheOnlyOne) {
  EXPECT_EQ(CountDevices().value(), 1);
  EXPECT_EQ(OpenDevice(0).value().kind, "cpu");
  const absl::Status status = OpenDevice(1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "device 1: the CPU is device 0 and the only one");
}

TEST(DeviceTest, KernelsWithoutGemmChoicesLeaveNoTable) {
  const std::string path = testing::TempDir() + "/coxswain-no-table/gemm.json";
  GemmTableFile file(path);
  EXPECT_FALSE(file.Load().value());
  EXPECT_FALSE(file.Save().value());
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(DeviceTest, OnlyAStickyErrorMeansThatTheDeviceIsLost) {
  const std::string doing = "step 3";
  for (const bool sticky : {false, true}) {
    const absl::Status status = RunGuarded(&doing, [&]() -> absl::Status {
      throw kernels::DeviceError("cudaLaunchKernel: out of luck", sticky);
    });
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_EQ(status.message(), "step 3: cudaLaunchKernel: out of luck");
    EXPECT_EQ(status.GetPayload(kDeviceLost).has_value(), sticky);
  }
}

}  // namespace
}  // namespace coxswain::engine
