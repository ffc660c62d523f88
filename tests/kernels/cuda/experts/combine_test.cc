#include "kernels/experts/expert_rows.h"

#include <limits>
#include <stdexcept>

#include "tests/kernels/cuda/expert_pairs.h"
#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {
namespace gpu_combine_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct CombineCase {
  CombineSpec spec;
  SortedPairs pairs;
  Floats weights, rows, dy;

  int64_t tokens() const { return static_cast<int64_t>(pairs.order.size()) / spec.chosen; }
  // What belongs to no pair is NaN: it is not read.
  CombineCase(DType dtype, int64_t tokens, int64_t chosen, int64_t hidden, const Ints& ids)
      : spec{.dtype = dtype, .hidden = hidden, .chosen = chosen},
        pairs(7, ids),
        weights(Normal(tokens * chosen, 1, DType::kFloat32)),
        rows(Normal(tokens * chosen * hidden, 2, dtype)),
        dy(Normal(tokens * hidden, 3, dtype)) {
    for (size_t p = 0; p < ids.size(); ++p) {
      if (ids[p] < 0) weights[p] = kNan;
      if (pairs.order[p] >= 0) continue;
      for (size_t j = 0; j < Size(hidden); ++j) rows[p * Size(hidden) + j] = kNan;
    }
  }
};

struct CombineGradients {
  Floats drows, dweights;
};

class CombineGpuTest : public testing::TestWithParam<DType> {
 protected:
  DType dtype_ = GetParam();

  Floats Forward(const CombineCase& c) const {
    const DeviceValues<int32_t> places(c.pairs.places);
    const DeviceTensor weights(DType::kFloat32, c.weights), rows(dtype_, c.rows);
    const DeviceTensor y(dtype_, c.tokens() * c.spec.hidden);
    CombineForward({.spec = c.spec,
                    .tokens = c.tokens(),
                    .places = places.data(),
                    .weights = weights.floats(),
                    .rows = rows.data(),
                    .y = y.data()},
                   TestStream());
    return y.Read();
  }
  CombineGradients Backward(const CombineCase& c, bool in_place, bool wants_rows = true,
                            bool wants_weights = true) const {
    const DeviceValues<int32_t> order(c.pairs.order), places(c.pairs.places);
    const DeviceTensor weights(DType::kFloat32, c.weights), rows(dtype_, c.rows);
    const DeviceTensor dy(dtype_, c.dy), beside(dtype_, rows.count());
    const DeviceTensor dweights(DType::kFloat32, weights.count());
    const DeviceTensor& drows = in_place ? rows : beside;
    CombineBackward({.spec = c.spec,
                     .tokens = c.tokens(),
                     .order = order.data(),
                     .places = places.data(),
                     .weights = weights.floats(),
                     .rows = rows.data(),
                     .dy = dy.data(),
                     .drows = wants_rows ? drows.data() : nullptr,
                     .dweights = wants_weights ? dweights.floats() : nullptr},
                    TestStream());
    return {drows.Read(), dweights.Read()};
  }
  void CheckForward(const CombineCase& c) const;
  void CheckBackward(const CombineCase& c) const;
  void Check(int64_t tokens, int64_t chosen, int64_t hidden, const Ints& ids) const {
    SCOPED_TRACE(std::to_string(chosen) + " rows of " + std::to_string(hidden));
    const CombineCase c(dtype_, tokens, chosen, hidden, ids);
    CheckForward(c);
    CheckBackward(c);
  }
};

// Fused products and sums in float32, slots rising, one rounding to the type: exact.
void CombineGpuTest::CheckForward(const CombineCase& c) const {
  const size_t hidden = Size(c.spec.hidden), chosen = Size(c.spec.chosen);
  Floats want(Size(c.tokens()) * hidden, 0.0f);
  for (size_t i = 0; i < want.size(); ++i) {
    for (size_t s = 0; s < chosen; ++s) {
      const size_t pair = i / hidden * chosen + s;
      const int32_t place = c.pairs.places[pair];
      if (place < 0) continue;
      want[i] = std::fmaf(c.weights[pair], c.rows[Size(place) * hidden + i % hidden], want[i]);
    }
    want[i] = Round(want[i], dtype_);
  }
  const Floats got = Forward(c);
  EXPECT_TRUE(SameBits(got, want));
  EXPECT_TRUE(SameBits(Forward(c), got));
}

// A row's gradient is one product, rounded to the type: exact. A thread adds at most H / 256 + 8
// products, then 5 and at most 8 sums meet: H / 256 + 21 roundings of the products' sizes.
void CombineGpuTest::CheckBackward(const CombineCase& c) const {
  const size_t hidden = Size(c.spec.hidden), chosen = Size(c.spec.chosen);
  Floats drows(c.rows.size(), 0.0f);
  for (size_t i = 0; i < drows.size(); ++i) {
    const int32_t pair = c.pairs.order[i / hidden];
    if (pair < 0) continue;
    drows[i] =
        Round(c.weights[Size(pair)] * c.dy[Size(pair) / chosen * hidden + i % hidden], dtype_);
  }
  const CombineGradients got = Backward(c, /*in_place=*/false);
  EXPECT_TRUE(SameBits(got.drows, drows));
  const double unit = static_cast<double>(hidden / 256 + 21) * kUnit(DType::kFloat32);
  for (size_t p = 0; p < c.weights.size(); ++p) {
    const int32_t place = c.pairs.places[p];
    double want = 0, size = 0;
    for (size_t j = 0; j < hidden && place >= 0; ++j) {
      const double product =
          double{c.dy[p / chosen * hidden + j]} * double{c.rows[Size(place) * hidden + j]};
      want += product;
      size += std::abs(product);
    }
    ASSERT_NEAR(got.dweights[p], want, unit * size) << "pair " << p;
  }
  const CombineGradients in_place = Backward(c, /*in_place=*/true);
  EXPECT_TRUE(SameBits(in_place.drows, drows));
  EXPECT_TRUE(SameBits(in_place.dweights, got.dweights));
}

TEST_P(CombineGpuTest, RowsOfEveryWidth) {
  for (const int64_t hidden : {1, 2, 7, 8, 9, 24, 300, 896, 2048, 2880, 7168}) {
    Check(13, 8, hidden, ExpertIds(13 * 8, 7, 3, true));
  }
}

TEST_P(CombineGpuTest, AnyNumberOfSlots) {
  for (const int64_t chosen : {1, 2, 7, 9, 16, 17}) {
    for (const int64_t hidden : {5, 64}) {
      Check(29, chosen, hidden, ExpertIds(29 * chosen, 7, 4, true));
      Check(29, chosen, hidden, ExpertIds(29 * chosen, 7, 5, false));
    }
  }
}

TEST_P(CombineGpuTest, OneExpertNoExpertAndNoTokens) {
  Check(31, 4, 40, Ints(124, 6));
  Check(31, 4, 40, Ints(124, -1));
  CombineForward({.spec = {.dtype = dtype_, .hidden = 8, .chosen = 2}}, TestStream());
  CombineBackward({.spec = {.dtype = dtype_, .hidden = 8, .chosen = 2}}, TestStream());
}

TEST_P(CombineGpuTest, WritesWhatIsWantedAlone) {
  const CombineCase c(dtype_, 11, 3, 72, ExpertIds(33, 7, 6, true));
  const CombineGradients both = Backward(c, false), rows = Backward(c, false, true, false);
  const CombineGradients weights = Backward(c, false, false, true);
  EXPECT_TRUE(SameBits(rows.drows, both.drows) && SameBits(weights.dweights, both.dweights));
  for (const float value : rows.dweights) ASSERT_TRUE(std::isnan(value));
  for (const float value : weights.drows) ASSERT_TRUE(std::isnan(value));
}

// Invariant kernels-6: a NaN in a row reaches its token's sum and its own weight's gradient.
TEST_P(CombineGpuTest, NanReachesItsToken) {
  CombineCase c(dtype_, 5, 2, 16, ExpertIds(10, 7, 7, false));
  const Floats y = Forward(c);
  const CombineGradients clean = Backward(c, false);
  c.rows[Size(c.pairs.places[6]) * 16 + 3] = kNan;  // slot 0 of token 3
  const Floats got = Forward(c);
  const CombineGradients gradients = Backward(c, false);
  for (size_t i = 0; i < got.size(); ++i) {
    if (i == 3 * 16 + 3) {
      EXPECT_TRUE(std::isnan(got[i]));
    } else {
      EXPECT_EQ(got[i], y[i]);
    }
  }
  for (size_t p = 0; p < 10; ++p) EXPECT_EQ(std::isnan(gradients.dweights[p]), p == 6);
  EXPECT_TRUE(SameBits(gradients.drows, clean.drows));
}

TEST_P(CombineGpuTest, RefusesWhatPlacesDoNotCount) {
  EXPECT_FALSE(CombineSupports({.dtype = dtype_, .hidden = 8, .chosen = 0}));
  CombineBackwardArgs args{.spec = {.dtype = dtype_, .hidden = 8, .chosen = 8}, .tokens = 1 << 28};
  EXPECT_THROW(CombineBackward(args, TestStream()), std::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(DTypes, CombineGpuTest, testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace gpu_combine_test
}  // namespace coxswain::kernels
