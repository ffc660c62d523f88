#include "common/gpu_table.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace coxswain {
namespace {

TEST(GpuTableTest, AMeasuredGpuHasItsRatesAndThePublishedPeak) {
  const Gpu h200 = GpuOf("NVIDIA H200");
  EXPECT_EQ(h200.name, "H200");
  EXPECT_EQ(h200.rates, (GpuRates{685e12, 4.28e12}));
  EXPECT_FALSE(h200.probed);
  EXPECT_EQ(h200.peak_flops_per_second, 989.4e12);
  EXPECT_EQ(GpuOf("NVIDIA H200", {1e12, 1e9}).rates, h200.rates);  // a probe says less
  EXPECT_EQ(GpuOf("NVIDIA H100 80GB HBM3").rates->copy_bytes_per_second, 3.02e12);
}

// What is published is no rate.
TEST(GpuTableTest, AGpuThatWasNotMeasuredHasAPeakAlone) {
  const Gpu l40s = GpuOf("NVIDIA L40S");
  EXPECT_EQ(l40s.name, "L40S");
  EXPECT_FALSE(l40s.rates);
  EXPECT_EQ(l40s.peak_flops_per_second, 362.05e12);
}

TEST(GpuTableTest, AProbeStandsWhereTheTableHasNoRates) {
  const GpuProbe probe{.product_flops_per_second = 300e12, .copy_bytes_per_second = 0.7e12};
  const Gpu l40s = GpuOf("NVIDIA L40S", probe);
  EXPECT_TRUE(l40s.probed);
  EXPECT_DOUBLE_EQ(l40s.rates->product_flops_per_second, 270e12);
  EXPECT_EQ(l40s.rates->copy_bytes_per_second, 0.7e12);
  EXPECT_EQ(l40s.peak_flops_per_second, 362.05e12);
  const Gpu other = GpuOf("NVIDIA H20", probe);
  EXPECT_EQ(other.name, "NVIDIA H20");
  EXPECT_EQ(other.rates, l40s.rates);
  EXPECT_EQ(other.peak_flops_per_second, 300e12);
  EXPECT_FALSE(GpuOf("NVIDIA H20", {.product_flops_per_second = 300e12}).rates);
}

// A part of a GPU, or another board with a name that begins alike, has other rates.
TEST(GpuTableTest, NamesAreWhole) {
  for (const char* name : {"NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA GH200 480GB",
                           "NVIDIA GeForce RTX 4090 Laptop GPU", "Intel(R) Xeon(R)", ""}) {
    EXPECT_EQ(FindGpu(name), nullptr) << name;
    EXPECT_FALSE(GpuOf(name).rates) << name;
    EXPECT_EQ(GpuOf(name).peak_flops_per_second, 0) << name;
  }
}

TEST(GpuTableTest, UsersNameAGpuInAnyCase) {
  EXPECT_EQ(GpuNamed("h100 sxm")->name, "H100 SXM");
  EXPECT_EQ(GpuNamed("NVIDIA A100-SXM4-40GB")->name, "A100 SXM 40GB");
  const absl::Status unknown = GpuNamed("H300").status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
  for (const GpuKind& kind : KnownGpus()) {
    EXPECT_NE(unknown.message().find("\"" + std::string(kind.name) + "\""), std::string::npos);
  }
  EXPECT_NE(unknown.message().find("GPU \"H300\" is not known"), std::string::npos);
}

TEST(GpuTableTest, EveryKindIsWholeAndNamedOnce) {
  std::set<std::string_view> names;
  for (const GpuKind& kind : KnownGpus()) {
    EXPECT_TRUE(names.insert(kind.name).second) << kind.name;
    ASSERT_FALSE(kind.driver_names.empty()) << kind.name;
    for (const std::string_view name : kind.driver_names) EXPECT_EQ(FindGpu(name), &kind);
    EXPECT_GE(kind.compute_capability, 80) << kind.name;
    if (!kind.rates) {
      EXPECT_EQ(kind.plannable_bytes(), kind.memory_bytes - (uint64_t{1} << 30));
      continue;
    }
    EXPECT_LT(kind.rates->product_flops_per_second, kind.peak_flops_per_second);
    EXPECT_LT(kind.rates->copy_bytes_per_second, kind.peak_bytes_per_second);
  }
}

}  // namespace
}  // namespace coxswain
