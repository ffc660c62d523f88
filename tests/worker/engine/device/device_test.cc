// Choosing the device, the table of GEMM choices, and what becomes of errors of the device.
#include "worker/engine/device/device.h"

#include <deque>
#include <filesystem>

#include <gtest/gtest.h>

#include "common/plan/extents.h"
#include "tests/support/scratch_folder.h"
#include "worker/engine/commands/executor.h"
#include "worker/engine/engine.h"

namespace coxswain::engine {
namespace device_test {
namespace {

TEST(DeviceTest, TheCpuIsDevice0AndTheOnlyOne) {
  EXPECT_EQ(CountDevices().value(), 1);
  EXPECT_EQ(OpenDevice(0).value().kind, "cpu");
  const absl::Status status = OpenDevice(1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "device 1: the CPU is device 0 and the only one");
}

TEST(DeviceTest, KernelsWithoutGemmChoicesLeaveNoTable) {
  const support::ScratchFolder folder;
  const std::string path = folder.path() + "/none/gemm.json";
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

TEST(DeviceTest, AnUnusableDeviceIsToldFromOneThatDoesNotAnswer) {
  const std::string doing = "device";
  const absl::Status status = RunGuarded(
      &doing, [&]() -> absl::Status { throw kernels::UnusableDevice("GPU 9 does not exist"); });
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "device: GPU 9 does not exist");
}

// The context of this process is open when free memory is read, and counted by plans.
TEST(DeviceTest, PlansMayTakeWhatIsFreeAndTheRuntimeLessOneGib) {
  constexpr uint64_t kGib = uint64_t{1} << 30;
  EXPECT_EQ(PlannableDeviceBytes(80 * kGib), 79 * kGib + plan::kCudaRuntimeBytes);
  EXPECT_EQ(PlannableDeviceBytes(kGib / 4), 0u);
}

// Reads `values` one after the other, the last again and again.
std::function<int64_t()> Reads(std::deque<int64_t> values) {
  return [values]() mutable {
    const int64_t value = values.front();
    if (values.size() > 1) values.pop_front();
    return value;
  };
}

constexpr std::chrono::milliseconds kSoon{1}, kLate{60000};

TEST(SettledFreeBytesTest, IsKnownAtOnceWhereNothingElseIsOnTheDevice) {
  EXPECT_EQ(SettledFreeBytes(97, Reads({98}), {kLate, kLate, kLate}), 98);
}

TEST(SettledFreeBytesTest, WaitsForWhatADeadProcessGivesBack) {
  EXPECT_EQ(SettledFreeBytes(97, Reads({40, 40, 60, 60, 99}), {kSoon, kLate, kLate}), 99);
}

TEST(SettledFreeBytesTest, TakesWhatIsFreeWhereOthersStay) {
  EXPECT_EQ(SettledFreeBytes(97, Reads({40, 60, 50}), {kSoon, 20 * kSoon, kLate}), 60);
}

TEST(SettledFreeBytesTest, EndsWhereMemoryComesFreeForEver) {
  int64_t free = 0;
  const int64_t found =
      SettledFreeBytes(1'000'000, [&free] { return ++free; }, {kSoon, kLate, 20 * kSoon});
  EXPECT_LE(found, free);
  EXPECT_GE(found, 2);
}

}  // namespace
}  // namespace device_test
}  // namespace coxswain::engine
