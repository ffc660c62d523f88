#include "kernels/experts/expert_rows.h"

#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace dispatch_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Two tokens of two slots; pair 1 is left out.
const std::vector<int32_t> kOrder = {2, 0, 3, -1}, kPlaces = {1, -1, 0, 2};

TEST(DispatchTest, CopiesRowsAndZerosWhatIsBehindThem) {
  const DispatchSpec spec{.hidden = 3, .chosen = 2};
  const Floats x = {1, 2, 3, 4, 5, 6}, want = {4, 5, 6, 1, 2, 3, 4, 5, 6, 0, 0, 0};
  Floats rows(12, kNan);
  ExpectNoAllocation none;
  DispatchForward({.spec = spec,
                   .tokens = 2,
                   .order = kOrder.data(),
                   .places = kPlaces.data(),
                   .x = x.data(),
                   .rows = rows.data()},
                  nullptr);
  EXPECT_TRUE(SameBits(rows, want));
}

// The row behind the last pair is NaN: it is not read.
TEST(DispatchTest, BackwardAddsTheRowsOfAToken) {
  const DispatchSpec spec{.hidden = 3, .chosen = 2};
  const Floats drows = {1, 2, 3, 10, 20, 30, 100, 200, 300, kNan, kNan, kNan};
  const Floats want = {10, 20, 30, 101, 202, 303};
  Floats dx(6, kNan);
  ExpectNoAllocation none;
  DispatchBackward(
      {.spec = spec, .tokens = 2, .places = kPlaces.data(), .drows = drows.data(), .dx = dx.data()},
      nullptr);
  EXPECT_TRUE(SameBits(dx, want));
}

// 1 + 2^-24 + 2^-24 is 1 from the left and 1 + 2^-23 from the right.
TEST(DispatchTest, BackwardAddsInTheOrderOfSlots) {
  const float small = 0x1p-24f;
  const Floats drows = {small, small, 1.0f};
  const std::vector<int32_t> rising = {2, 1, 0}, falling = {0, 1, 2};
  const DispatchSpec spec{.hidden = 1, .chosen = 3};
  float dx = kNan;
  DispatchBackward(
      {.spec = spec, .tokens = 1, .places = rising.data(), .drows = drows.data(), .dx = &dx},
      nullptr);
  EXPECT_EQ(dx, 1.0f);
  DispatchBackward(
      {.spec = spec, .tokens = 1, .places = falling.data(), .drows = drows.data(), .dx = &dx},
      nullptr);
  EXPECT_EQ(dx, 1.0f + 0x1p-23f);
}

TEST(DispatchTest, RefusesAPlaceThatIsNotThere) {
  const std::vector<int32_t> wrong = {4, 0, 1, 2};
  const DispatchSpec spec{.hidden = 1, .chosen = 2};
  Floats x(2), rows(4);
  for (const auto& [order, places] : {std::pair(wrong, kPlaces), {kOrder, wrong}}) {
    EXPECT_THROW(DispatchForward({.spec = spec,
                                  .tokens = 2,
                                  .order = order.data(),
                                  .places = places.data(),
                                  .x = x.data(),
                                  .rows = rows.data()},
                                 nullptr),
                 std::invalid_argument);
  }
  EXPECT_THROW(
      DispatchBackward(
          {.spec = spec, .tokens = 2, .places = wrong.data(), .drows = rows.data(), .dx = x.data()},
          nullptr),
      std::invalid_argument);
  EXPECT_FALSE(DispatchSupports({.dtype = DType::kBFloat16, .hidden = 1, .chosen = 1}));
}

}  // namespace
}  // namespace dispatch_test
}  // namespace coxswain::kernels
