#include "kernels/cpu/blas_core.h"

#include <gtest/gtest.h>

namespace coxswain::kernels::cpu {
namespace {

TEST(BlasCoreTest, UnknownCpusGetTheWidestKernelsThatTheyRun) {
  for (const char* core : {"Prescott", "Barcelona"}) {  // of Intel and of AMD
    EXPECT_EQ(WiderBlasCore(core, "avx512"), "SkylakeX") << core;
    EXPECT_EQ(WiderBlasCore(core, "avx2"), "Haswell") << core;
  }
}

TEST(BlasCoreTest, WhatOpenBlasKnowsStays) {
  EXPECT_EQ(WiderBlasCore("Prescott", "baseline"), "") << "a CPU without AVX2 runs no other";
  for (const char* core :
       {"Zen", "Haswell", "SkylakeX", "Cooperlake", "Sapphirerapids", "Nehalem"}) {
    EXPECT_EQ(WiderBlasCore(core, "avx512"), "") << core;
  }
  EXPECT_EQ(WiderBlasCore("", "avx512"), "") << "another BLAS";
}

TEST(BlasCoreTest, TellsTheUnitsOfThisCpu) {
  const std::string units = VectorUnits();
  EXPECT_TRUE(units == "avx512" || units == "avx2" || units == "baseline") << units;
}

}  // namespace
}  // namespace coxswain::kernels::cpu
