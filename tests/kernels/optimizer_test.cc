// Global norm, the decision to update, AdamW, and the device calls around them.
#include <limits>

#include "kernels/adamw.h"
#include "kernels/device.h"
#include "kernels/global_norm.h"
#include "tests/kernels/testing.h"
#include "tests/reference/adamw.h"

namespace coxswain::kernels {
namespace {

NormSums ComputeNorm(const std::vector<Floats>& tensors) {
  std::vector<NormTensor> list;
  int64_t chunks = 0;
  for (const Floats& t : tensors) {
    list.push_back({t.data(), static_cast<int64_t>(t.size()), chunks});
    chunks += TensorChunks(static_cast<int64_t>(t.size()));
  }
  const int64_t count = static_cast<int64_t>(list.size());
  Scratch scratch(GlobalNormWorkspaceBytes(chunks));
  NormSums sums{-1.0, -1.0};
  GlobalNorm({.tensors = list.data(),
              .count = count,
              .chunks = chunks,
              .sums = &sums,
              .workspace = scratch.view()},
             nullptr);
  return sums;
}

// Invariant kernels-9.
TEST(GlobalNormTest, AddsSquaresOfAllTensorsInDouble) {
  std::vector<Floats> tensors;
  double want = 0;
  for (const int64_t n : {1, 7, 0, 16384, 16385, 50001}) {
    tensors.push_back(Normal(n, static_cast<unsigned>(n)));
    for (float g : tensors.back()) want += static_cast<double>(g) * g;
  }
  const NormSums sums = ComputeNorm(tensors);
  EXPECT_NEAR(sums.sum_squares / want, 1.0, 82778 * 0x1p-53);
  EXPECT_EQ(sums.nonfinite, 0.0);
  EXPECT_EQ(ComputeNorm(tensors).sum_squares, sums.sum_squares);
  EXPECT_EQ(ComputeNorm({}).sum_squares, 0.0);
}

TEST(GlobalNormTest, LargestFloatsDoNotOverflow) {
  const NormSums sums = ComputeNorm({Floats(100, std::numeric_limits<float>::max())});
  EXPECT_TRUE(std::isfinite(sums.sum_squares));
  EXPECT_EQ(sums.nonfinite, 0.0);
}

TEST(GlobalNormTest, CountsEveryNonFiniteElement) {
  std::vector<Floats> tensors = {Normal(40000, 1), Normal(3, 2)};
  tensors[0][5] = std::numeric_limits<float>::infinity();
  tensors[0][39999] = std::numeric_limits<float>::quiet_NaN();
  tensors[1][0] = -std::numeric_limits<float>::infinity();
  const NormSums sums = ComputeNorm(tensors);
  EXPECT_EQ(sums.nonfinite, 3.0);
  EXPECT_FALSE(std::isfinite(sums.sum_squares));
}

TEST(DecideUpdateTest, ClipsSkipsOrPasses) {
  OptimizerScalars scalars;
  double norm;
  NormSums sums{.sum_squares = 16.0, .nonfinite = 0.0};
  const auto decide = [&](double max_norm) {
    DecideUpdate({.sums = &sums, .max_norm = max_norm, .scalars = &scalars, .norm = &norm},
                 nullptr);
  };
  decide(1.0);
  EXPECT_EQ(norm, 4.0);
  EXPECT_EQ(scalars.skip, 0);
  EXPECT_DOUBLE_EQ(scalars.clip_factor, 1.0 / (4.0 + 1e-6));
  decide(5.0);
  EXPECT_EQ(scalars.clip_factor, 1.0);
  decide(0.0);
  EXPECT_EQ(scalars.clip_factor, 1.0);
  sums.sum_squares = std::numeric_limits<double>::quiet_NaN();
  decide(1.0);
  EXPECT_EQ(scalars.skip, 1);
  sums.sum_squares = std::numeric_limits<double>::infinity();
  decide(0.0);
  EXPECT_EQ(scalars.skip, 1);
}

struct State {
  Floats p, m, v;
};

State Fresh(int64_t n, unsigned seed) {
  return {Normal(n, seed), Floats(Size(n), 0.0f), Floats(Size(n), 0.0f)};
}

TEST(AdamWTest, Follows20UpdatesOfTwoGroups) {
  const int64_t sizes[2] = {103, 17};
  const double lr_scale[2] = {1.0, 16.0}, decay[2] = {0.1, 0.0};
  OptimizerScalars scalars{
      .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.98, .eps = 1e-8, .clip_factor = 0.5};
  State states[2] = {Fresh(103, 1), Fresh(17, 2)};
  std::vector<reference::AdamWElement<double>> want[2];
  for (int g = 0; g < 2; ++g) {
    for (float p : states[g].p) want[g].push_back({p});
  }
  for (int update = 1; update <= 20; ++update) {
    std::vector<AdamWTensor> list;
    Floats gradients[2];
    for (int g = 0; g < 2; ++g) {
      gradients[g] = Normal(sizes[g], static_cast<unsigned>(100 * update + g));
      list.push_back({.p = states[g].p.data(),
                      .g = gradients[g].data(),
                      .m = states[g].m.data(),
                      .v = states[g].v.data(),
                      .n = sizes[g],
                      .first_chunk = g,
                      .lr_scale = lr_scale[g],
                      .weight_decay = decay[g]});
      const reference::AdamWOptions<double> o{1e-3 * lr_scale[g], 0.9, 0.98, 1e-8, decay[g]};
      for (size_t i = 0; i < want[g].size(); ++i) {
        reference::AdamWUpdate<double>(o, 0.5 * gradients[g][i], update, &want[g][i]);
      }
    }
    AdamW({.tensors = list.data(), .count = 2, .chunks = 2, .scalars = &scalars}, nullptr);
    ASSERT_EQ(scalars.applied_updates, update);
  }
  for (int g = 0; g < 2; ++g) {
    for (size_t i = 0; i < want[g].size(); ++i) {
      // Each update rounds p once (|p| < 5) and the step, below 8 lr, within 20 u of itself:
      // moments are sums of at most 20 terms rounded twice each.
      const double bound = 20 * (5 + 8e-3 * lr_scale[g] * 80) * kUnit;
      ASSERT_NEAR(states[g].p[i], want[g][i].p, bound);
      ASSERT_NEAR(states[g].m[i], want[g][i].m, 60 * kUnit);
      ASSERT_NEAR(states[g].v[i], want[g][i].v, 60 * kUnit);
    }
  }
}

TEST(AdamWTest, DecayAloneMovesByLrTimesDecay) {
  // 1 - lr wd = 1 - 1e-7 rounds to 1 - 1.19e-7 in float32: the decay itself must not be rounded so.
  State s{Floats(1, 1.0f), Floats(1, 0.0f), Floats(1, 0.0f)};
  const Floats zero(1, 0.0f);
  const AdamWTensor t{.p = s.p.data(),
                      .g = zero.data(),
                      .m = s.m.data(),
                      .v = s.v.data(),
                      .n = 1,
                      .weight_decay = 0.01};
  OptimizerScalars scalars{.lr = 1e-3};
  for (int i = 0; i < 1000; ++i) {
    AdamW({.tensors = &t, .count = 1, .chunks = 1, .scalars = &scalars}, nullptr);
  }
  EXPECT_NEAR(s.p[0], std::exp(-0.01), 1000 * kUnit);
}

// Invariant kernels-8.
TEST(AdamWTest, SkipLeavesEverything) {
  State s = Fresh(50, 1);
  s.m = Normal(50, 2);
  const State before = s;
  const Floats nan(50, std::numeric_limits<float>::quiet_NaN());
  const AdamWTensor t{.p = s.p.data(),
                      .g = nan.data(),
                      .m = s.m.data(),
                      .v = s.v.data(),
                      .n = 50,
                      .weight_decay = 0.1};
  OptimizerScalars scalars{.lr = 1e-3, .applied_updates = 7, .skip = 1};
  AdamW({.tensors = &t, .count = 1, .chunks = 1, .scalars = &scalars}, nullptr);
  EXPECT_TRUE(SameBits(s.p, before.p) && SameBits(s.m, before.m) && SameBits(s.v, before.v));
  EXPECT_EQ(scalars.applied_updates, 7);
}

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
}  // namespace coxswain::kernels
