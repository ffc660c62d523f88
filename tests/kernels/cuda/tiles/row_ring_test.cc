// The ring of rows by itself: which norms run with one stage depends on the GPU, so that their own
// tests need not meet it.
#include "tests/kernels/cuda/gpu_testing.h"
#include "tests/kernels/cuda/row_ring_walk.h"

namespace coxswain::kernels {
namespace gpu_row_ring_test {
namespace {

constexpr int64_t kOfVector = 4;  // floats
// Of longer rows two stages need 192 KiB, which not every GPU gives a block.
constexpr int64_t kMostOfTwoStages = 768;

class RowRingGpuTest : public testing::TestWithParam<int> {
 protected:
  // What the owners of each row should read: the row, and zeros past its end.
  static Floats Padded(const Floats& rows, int64_t vectors) {
    return SpreadRows(rows, vectors * kOfVector, RowRingSlots(vectors) * kOfVector, 0.0f);
  }
};

// Of every kind of owner a row that it fills and one that it does not; of a warp or block no row,
// one, and several.
TEST_P(RowRingGpuTest, HandsOutEachRowWhenItHasArrived) {
  for (const int64_t vectors : {1, 31, 32, 33, 64, 127, 128, 129, 640, 768, 769, 2047, 2048}) {
    if (GetParam() == 2 && vectors > kMostOfTwoStages) continue;
    for (const int64_t rows : {1, 3, 41, 100}) {
      for (const int tensors : {2, 3}) {
        const Floats values = Normal(tensors * rows * vectors * kOfVector, 1, DType::kFloat32);
        const Floats want = Padded(values, vectors);
        const DeviceTensor in(DType::kFloat32, values);
        const DeviceTensor out(DType::kFloat32, static_cast<int64_t>(want.size()));
        WalkRowRing({.rows = rows,
                     .vectors = vectors,
                     .tensors = tensors,
                     .stages = GetParam(),
                     .blocks = 2,
                     .in = in.floats(),
                     .out = out.floats()},
                    TestStream());
        ASSERT_EQ(out.Read(), want)
            << vectors << " vectors, " << rows << " rows, " << tensors << " tensors";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, RowRingGpuTest, testing::Values(1, 2));

}  // namespace
}  // namespace gpu_row_ring_test
}  // namespace coxswain::kernels
