#include "kernels/experts/expert_rows.h"

#include <limits>
#include <stdexcept>
#include <vector>

#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace combine_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Two tokens of two slots; pair 1 is left out, so its weight and the last row are NaN.
const std::vector<int32_t> kOrder = {2, 0, 3, -1}, kPlaces = {1, -1, 0, 2};
const Floats kWeights = {2.0f, kNan, 0.5f, -1.0f};
const Floats kRows = {2, 4, 6, 1, 2, 3, 5, 6, 7, kNan, kNan, kNan};
constexpr CombineSpec kSpec{.hidden = 3, .chosen = 2};

TEST(CombineTest, AddsTheRowsOfATokenByWeight) {
  const Floats want = {2, 4, 6, -4, -4, -4};
  Floats y(6, kNan);
  ExpectNoAllocation none;
  CombineForward({.spec = kSpec,
                  .tokens = 2,
                  .places = kPlaces.data(),
                  .weights = kWeights.data(),
                  .rows = kRows.data(),
                  .y = y.data()},
                 nullptr);
  EXPECT_TRUE(SameBits(y, want));
}

TEST(CombineTest, AddsInTheOrderOfSlots) {
  const float small = 0x1p-24f;
  const Floats rows = {small, small, 1.0f}, weights = {1, 1, 1};
  const std::vector<int32_t> places = {2, 1, 0};
  float y = kNan;
  CombineForward({.spec = {.hidden = 1, .chosen = 3},
                  .tokens = 1,
                  .places = places.data(),
                  .weights = weights.data(),
                  .rows = rows.data(),
                  .y = &y},
                 nullptr);
  EXPECT_EQ(y, 1.0f);  // 1 + 2^-23 from the other end
}

TEST(CombineTest, BackwardInPlaceOfTheRowsAndBeside) {
  const Floats dy = {1, 1, 1, 1, 0, 2};
  Floats beside(12, kNan), in_place = kRows, dweights(4, kNan);
  CombineBackwardArgs args{.spec = kSpec,
                           .tokens = 2,
                           .order = kOrder.data(),
                           .places = kPlaces.data(),
                           .weights = kWeights.data(),
                           .rows = kRows.data(),
                           .dy = dy.data(),
                           .drows = beside.data(),
                           .dweights = dweights.data()};
  CombineBackward(args, nullptr);
  const Floats want = {0.5f, 0, 1, 2, 2, 2, -1, 0, -2, 0, 0, 0}, want_weights = {6, 0, 14, 19};
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(beside[i], want[i]) << i;
  EXPECT_EQ(dweights, want_weights);
  args.rows = args.drows = in_place.data();
  dweights.assign(4, kNan);
  CombineBackward(args, nullptr);
  EXPECT_TRUE(SameBits(in_place, beside));
  EXPECT_EQ(dweights, want_weights);
  const Floats kept = dweights;
  args.dweights = nullptr;
  CombineBackward(args, nullptr);
  args.drows = nullptr;
  CombineBackward(args, nullptr);
  EXPECT_EQ(dweights, kept);
}

TEST(CombineTest, RefusesAPlaceThatIsNotThere) {
  const std::vector<int32_t> wrong = {1, 4, 0, 2};
  Floats y(6);
  EXPECT_THROW(CombineForward({.spec = kSpec,
                               .tokens = 2,
                               .places = wrong.data(),
                               .weights = kWeights.data(),
                               .rows = kRows.data(),
                               .y = y.data()},
                              nullptr),
               std::invalid_argument);
  EXPECT_FALSE(CombineSupports({.dtype = DType::kBFloat16, .hidden = 1, .chosen = 1}));
}

}  // namespace
}  // namespace combine_test
}  // namespace coxswain::kernels
