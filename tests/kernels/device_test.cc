#include "kernels/device.h"

#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace device_test {
namespace {

TEST(DeviceTest, MemoryIsAlignedAndCopied) {
  EXPECT_EQ(AllocateMemory(0), nullptr);
  EXPECT_THROW(AllocateMemory(-1), std::bad_alloc);
  char* data = static_cast<char*>(AllocateMemory(100));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u);
  SetMemory(data, 3, 100, nullptr);
  char copy[100];
  CopyMemory(copy, data, 100, nullptr);
  EXPECT_TRUE(std::all_of(copy, copy + 100, [](char c) { return c == 3; }));
  FreeMemory(data);
  FreeMemory(nullptr);
}

TEST(DeviceTest, ThreadsAndFingerprint) {
  EXPECT_THROW(SetNumThreads(0), std::invalid_argument);
  SetNumThreads(1);
  EXPECT_EQ(NumThreads(), 1);
  EXPECT_NE(DeviceFingerprint().find("threads=1"), std::string::npos);
}

}  // namespace
}  // namespace device_test
}  // namespace coxswain::kernels
