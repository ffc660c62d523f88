#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "kernels/device.h"
#include "kernels/device_code.h"
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

namespace device_code_test {
namespace {

constexpr char kDefault[] = "80-real 86-real 89-real 90a-real 90-virtual";

// What preset release-cuda builds, as cmake/cuda.cmake names it.
std::string Release() {
  std::ifstream file("CMakePresets.json");
  const nlohmann::json presets = nlohmann::json::parse(file);
  for (const auto& preset : presets["configurePresets"]) {
    if (preset["name"] != "release-cuda") continue;
    std::istringstream names(
        preset["cacheVariables"]["COXSWAIN_CUDA_ARCHITECTURES"].get<std::string>());
    std::string built;
    for (std::string name; std::getline(names, name, ';');) {
      built += (built.empty() ? "" : " ") + name + (name.ends_with("-virtual") ? "" : "-real");
    }
    return built;
  }
  return "";
}

TEST(DeviceCodeTest, MachineCodeRunsWithinItsMajorNumberFromItsMinorNumberOn) {
  for (const auto& [built, capability, runs] : {std::tuple{"80-real", 80, true},
                                                {"80-real", 86, true},
                                                {"80-real", 89, true},
                                                {"86-real", 80, false},
                                                {"86-real", 89, true},
                                                {"89-real", 86, false},
                                                {"80-real", 90, false},
                                                {"100-real", 103, true},
                                                {"100-real", 120, false},
                                                {"90a-real", 90, true},
                                                {"90a-real", 100, false},
                                                {"100a-real", 103, false},
                                                {"100f-real", 103, true},
                                                {"100f-real", 110, false}}) {
    EXPECT_EQ(HasCodeFor(built, capability), runs) << built << " on " << capability;
  }
}

TEST(DeviceCodeTest, PtxRunsOnEverythingNewerButThatOfFeatures) {
  for (const int capability : {90, 100, 103, 120, 121}) {
    EXPECT_TRUE(HasCodeFor("90-virtual", capability)) << capability;
  }
  EXPECT_FALSE(HasCodeFor("90-virtual", 89));
  EXPECT_FALSE(HasCodeFor("90a-virtual", 100));
  EXPECT_TRUE(HasCodeFor("100f-virtual", 103));
  EXPECT_FALSE(HasCodeFor("100f-virtual", 120));
  EXPECT_TRUE(HasCodeFor("80", 120)) << "a plain name is both";
}

TEST(DeviceCodeTest, TheDefaultAndTheReleaseBuildCoverEveryGpuFrom80On) {
  for (const std::string& built : {std::string(kDefault), Release()}) {
    for (const int capability : {80, 86, 87, 89, 90, 100, 103, 110, 120, 121}) {
      EXPECT_TRUE(HasCodeFor(built, capability)) << capability << " by " << built;
    }
    EXPECT_FALSE(HasCodeFor(built, 75)) << built;
  }
  EXPECT_FALSE(HasCodeFor("90a-real", 80));
  EXPECT_FALSE(HasCodeFor("", 90));
}

TEST(DeviceCodeTest, TheReleaseBuildHasMachineCodeOfItsOwnForNewGpus) {
  EXPECT_EQ(DescribeCode(Release()), "8.0 8.9 9.0a 10.0 12.0, PTX 9.0");
}

TEST(DeviceCodeTest, TheRefusalNamesTheGpuWhatThereIsAndWhatToBuild) {
  EXPECT_EQ(DescribeCode(kDefault), "8.0 8.6 8.9 9.0a, PTX 9.0");
  EXPECT_EQ(DescribeCode("80"), "8.0, PTX 8.0");
  EXPECT_EQ(DescribeCode("90-virtual"), "PTX 9.0");
  EXPECT_EQ(
      GpuRefusal("NVIDIA GeForce RTX 5090", 120, "80-real 90a-real"),
      "NVIDIA GeForce RTX 5090 (compute capability 12.0) has no code in this build, which has "
      "8.0 9.0a: build with -DCOXSWAIN_CUDA_ARCHITECTURES=120, or without that option for "
      "every GPU from 8.0 on");
  EXPECT_NE(GpuRefusal("NVIDIA H200", 90, "80-real").find("ARCHITECTURES=90a,"), std::string::npos);
  EXPECT_EQ(GpuRefusal("NVIDIA H200", 90, kDefault), "");
}

TEST(DeviceCodeTest, AGpuBelow80IsRefusedByNameWhateverTheBuildHas) {
  for (const char* built : {kDefault, "75", "75-real 80-real"}) {
    EXPECT_EQ(GpuRefusal("Tesla T4", 75, built),
              "Tesla T4 (compute capability 7.5) is too old: at least 8.0 is needed. Train on "
              "another GPU, or with resources: {device: cpu}");
  }
}

TEST(DeviceCodeTest, ADriverOfAnOlderCudaIsRefusedWithBothVersions) {
  EXPECT_EQ(DriverRefusal(12080, 13000),
            "the NVIDIA driver of this host is too old: it supports CUDA 12.8, this build needs "
            "CUDA 13.0. Install driver 580 or newer");
  EXPECT_EQ(DriverRefusal(0, 13000),
            "no NVIDIA driver is loaded on this host: install driver 580 or newer, for CUDA 13.0, "
            "or use the CPU worker");
}

TEST(DeviceCodeTest, ABuildOfCuda12AsksForAnOlderDriver) {
  EXPECT_EQ(DriverRefusal(11080, 12090),
            "the NVIDIA driver of this host is too old: it supports CUDA 11.8, this build needs "
            "CUDA 12.9. Install driver 525 or newer");
  EXPECT_EQ(DriverRefusal(0, 12090),
            "no NVIDIA driver is loaded on this host: install driver 525 or newer, for CUDA 12.9, "
            "or use the CPU worker");
  EXPECT_EQ(DriverRefusal(12000, 12090), "");
  EXPECT_EQ(DriverRefusal(13000, 12090), "");
}

TEST(DeviceCodeTest, ADriverRunsEveryMinorVersionOfItsCuda) {
  EXPECT_EQ(DriverRefusal(13000, 13050), "");
  EXPECT_EQ(DriverRefusal(13010, 13000), "");
  EXPECT_EQ(DriverRefusal(14000, 13000), "");
}

}  // namespace
}  // namespace device_code_test

}  // namespace coxswain::kernels
