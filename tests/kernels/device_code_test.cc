#include "kernels/device_code.h"

#include <gtest/gtest.h>

namespace coxswain::kernels {
namespace device_code_test {
namespace {

constexpr char kDefault[] = "80-real 86-real 89-real 90a-real 90-virtual";

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

TEST(DeviceCodeTest, TheDefaultBuildCoversEveryGpuFrom80On) {
  for (const int capability : {80, 86, 87, 89, 90, 100, 103, 110, 120, 121}) {
    EXPECT_TRUE(HasCodeFor(kDefault, capability)) << capability;
  }
  EXPECT_FALSE(HasCodeFor(kDefault, 75));
  EXPECT_FALSE(HasCodeFor("90a-real", 80));
  EXPECT_FALSE(HasCodeFor("", 90));
}

TEST(DeviceCodeTest, TheRefusalNamesTheGpuWhatThereIsAndWhatToBuild) {
  EXPECT_EQ(DescribeCode(kDefault), "8.0 8.6 8.9 9.0a, PTX 9.0");
  EXPECT_EQ(DescribeCode("80"), "8.0, PTX 8.0");
  EXPECT_EQ(DescribeCode("90-virtual"), "PTX 9.0");
  EXPECT_EQ(
      MissingCode("NVIDIA GeForce RTX 5090", 120, "80-real 90a-real"),
      "NVIDIA GeForce RTX 5090 (compute capability 12.0) has no code in this build, which has "
      "8.0 9.0a: build with -DCOXSWAIN_CUDA_ARCHITECTURES=120, or without that option for "
      "every GPU from 8.0 on");
  EXPECT_NE(MissingCode("NVIDIA H200", 90, "80-real").find("ARCHITECTURES=90a,"),
            std::string::npos);
}

}  // namespace
}  // namespace device_code_test
}  // namespace coxswain::kernels
