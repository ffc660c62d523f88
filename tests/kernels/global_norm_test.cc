#include "kernels/global_norm.h"

#include <limits>

#include "tests/kernels/testing.h"

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

}  // namespace
}  // namespace coxswain::kernels
