// Memory, graphs and faults of the device itself.
#include "kernels/device.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <new>
#include <stdexcept>

#include "kernels/tensors/whole_tensors.h"
#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {
namespace gpu_device_test {
namespace {

AddArgs Doubled(const DeviceTensor& y) {
  return {
      .dtype = y.dtype(), .x_dtype = y.dtype(), .count = y.count(), .x = y.data(), .y = y.data()};
}

TEST(DeviceGpuTest, NamesTheDeviceItChose) {
  EXPECT_GE(DeviceCount(), 1);
  const DeviceDescription device = SelectDevice(0);
  EXPECT_EQ(device.kind, "cuda");
  EXPECT_FALSE(device.name.empty());
  EXPECT_GE(device.capability, 80);
  EXPECT_GT(device.multiprocessors, 0);
  EXPECT_GT(FreeMemoryBytes(), 0);
  EXPECT_GE(device.total_bytes, FreeMemoryBytes());
  EXPECT_NE(DeviceFingerprint().find("device=cuda name=" + device.name), std::string::npos);
}

TEST(DeviceGpuTest, ADeviceThatIsNotThereIsOneSentence) {
  try {
    SelectDevice(999);
    FAIL() << "GPU 999 was chosen";
  } catch (const UnusableDevice& error) {
    EXPECT_NE(std::string(error.what()).find("GPU 999 does not exist: this host shows"),
              std::string::npos)
        << error.what();
    EXPECT_FALSE(error.sticky());
  }
}

TEST(DeviceGpuTest, GoesOnAfterMemoryWasShort) {
  EXPECT_THROW(AllocateMemory(int64_t{1} << 50), std::bad_alloc);
  EXPECT_EQ(AllocateMemory(0), nullptr);
  const DeviceTensor y(DType::kFloat32, Floats{1, 2, 3});
  Add(Doubled(y), TestStream());
  EXPECT_EQ(y.Read(), (Floats{2, 4, 6}));
}

TEST(DeviceGpuTest, GraphRunsWhatItRecordedEachTimeAndNotBefore) {
  const DeviceTensor y(DType::kFloat32, Floats{1, 2, 3});
  Graph* graph = CaptureGraph([&] { Add(Doubled(y), TestStream()); }, TestStream());
  EXPECT_EQ(y.Read(), (Floats{1, 2, 3}));
  LaunchGraph(graph, TestStream());
  LaunchGraph(graph, TestStream());
  EXPECT_EQ(y.Read(), (Floats{4, 8, 12}));
  DestroyGraph(graph);
}

TEST(DeviceGpuTest, AnExceptionWhileRecordingLeavesTheStreamUsable) {
  const DeviceTensor y(DType::kFloat32, Floats{1, 2, 3});
  const auto throws = [&] {
    Add(Doubled(y), TestStream());
    throw std::runtime_error("half way");
  };
  EXPECT_THROW(CaptureGraph(throws, TestStream()), std::runtime_error);
  Add(Doubled(y), TestStream());
  EXPECT_EQ(y.Read(), (Floats{2, 4, 6}));
}

TEST(DeviceGpuTest, PinnedMemoryCopiesInOrder) {
  auto* host = static_cast<float*>(AllocatePinnedMemory(2 * sizeof(float)));
  host[0] = 5;
  const DeviceTensor y(DType::kFloat32, 1);
  CopyMemory(y.data(), host, sizeof(float), TestStream());
  Add(Doubled(y), TestStream());
  CopyMemory(host + 1, y.data(), sizeof(float), TestStream());
  Event* copied = CreateEvent();
  EXPECT_TRUE(EventReached(copied));
  RecordEvent(copied, TestStream());
  Synchronize(TestStream());
  EXPECT_TRUE(EventReached(copied));
  EXPECT_EQ(host[1], 10);
  DestroyEvent(copied);
  FreePinnedMemory(host);
}

// In a process of its own: the fault takes the context with it.
TEST(DeviceGpuDeathTest, AnIllegalAddressIsSticky) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto fault = [] {
    auto* nowhere = reinterpret_cast<void*>(uintptr_t{1} << 44);
    Stream* stream = CreateStream();
    try {
      Add({.dtype = DType::kFloat32, .count = 4, .alpha = 1.0f, .x = nowhere, .y = nowhere},
          stream);
      Synchronize(stream);
    } catch (const DeviceError& error) {
      _exit(error.sticky() ? 3 : 4);
    }
    _exit(5);
  };
  EXPECT_EXIT(fault(), testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace gpu_device_test
}  // namespace coxswain::kernels
