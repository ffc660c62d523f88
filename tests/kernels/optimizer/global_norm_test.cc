#include "kernels/optimizer/global_norm.h"

#include <bit>
#include <limits>

#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace global_norm_test {
namespace {

// The sums of the list and, behind, of each tensor.
std::vector<NormSums> ComputeNorms(const std::vector<Floats>& tensors) {
  std::vector<NormTensor> list;
  int64_t chunks = 0;
  for (const Floats& t : tensors) {
    list.push_back({t.data(), static_cast<int64_t>(t.size()), chunks});
    chunks += TensorChunks(static_cast<int64_t>(t.size()));
  }
  const int64_t count = static_cast<int64_t>(list.size());
  Scratch scratch(GlobalNormWorkspaceBytes(chunks));
  std::vector<NormSums> sums(list.size() + 1, {-1.0, -1.0});
  GlobalNorm({.tensors = list.data(),
              .count = count,
              .chunks = chunks,
              .sums = sums.data(),
              .workspace = scratch.view()},
             nullptr);
  TensorNorms({.tensors = list.data(),
               .count = count,
               .chunk_sums = static_cast<const NormSums*>(scratch.view().data),
               .sums = sums.data() + 1},
              nullptr);
  return sums;
}

NormSums ComputeNorm(const std::vector<Floats>& tensors) { return ComputeNorms(tensors)[0]; }

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

TEST(TensorNormsTest, AreThoseOfEachTensorAlone) {
  std::vector<Floats> tensors;
  for (const int64_t n : {0, 1, 16384, 0, 16385, 50001, 0}) {
    tensors.push_back(Normal(n, static_cast<unsigned>(n)));
  }
  tensors[4][16384] = std::numeric_limits<float>::quiet_NaN();
  tensors[5][0] = std::numeric_limits<float>::infinity();
  const std::vector<NormSums> sums = ComputeNorms(tensors);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const NormSums alone = ComputeNorm({tensors[i]});
    EXPECT_EQ(std::bit_cast<uint64_t>(sums[i + 1].sum_squares),
              std::bit_cast<uint64_t>(alone.sum_squares));
    EXPECT_EQ(sums[i + 1].nonfinite, alone.nonfinite);
  }
  EXPECT_EQ(sums[0].nonfinite, 2.0);
  EXPECT_EQ(sums[1].sum_squares, 0.0);
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
}  // namespace global_norm_test
}  // namespace coxswain::kernels
