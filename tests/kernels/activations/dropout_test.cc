#include "kernels/activations/dropout.h"

#include "common/philox.h"
#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace dropout_test {
namespace {

struct DropProblem {
  int64_t rows = 70, columns = 131;
  uint32_t step = 3;
  std::vector<uint32_t> bins, positions;
  DropProblem() {
    for (uint32_t t = 0; t < 70; ++t) {
      bins.push_back(100 + t / 32);
      positions.push_back(t % 32);
    }
  }
  DropoutArgs Args(const Floats& x, Floats* y, float rate) const {
    return {.spec = {.columns = columns, .rate = rate},
            .mask = {.key = {7, 9},
                     .site = 12,
                     .step = &step,
                     .bins = bins.data(),
                     .positions = positions.data()},
            .rows = rows,
            .x = x.data(),
            .y = y->data()};
  }
};

TEST(DropoutTest, DropsWhatPhiloxSays) {
  const DropProblem p;
  const float rate = 0.3f;
  const Floats x = Normal(p.rows * p.columns, 1);
  Floats y(x.size()), again = x, added = x;
  DropoutApply(p.Args(x, &y, rate), nullptr);
  DropoutApply(p.Args(again, &again, rate), nullptr);
  EXPECT_TRUE(SameBits(y, again)) << "in place";
  DropoutArgs accumulating = p.Args(x, &added, rate);
  accumulating.accumulate = true;
  DropoutApply(accumulating, nullptr);
  int kept = 0;
  for (uint32_t t = 0; t < 70; ++t) {
    for (uint32_t c = 0; c < 131; ++c) {
      const auto words = Philox4x32({3, (12u << 16) | (c / 4), p.bins[t], p.positions[t]}, {7, 9});
      const bool keep = PhiloxUniform(words[c % 4]) >= rate;
      const size_t i = t * 131 + c;
      ASSERT_EQ(y[i], keep ? x[i] * (1.0f / (1.0f - rate)) : 0.0f);
      ASSERT_NEAR(added[i], x[i] + y[i], 2 * kUnit * 15);
      kept += keep ? 1 : 0;
    }
  }
  // 9,170 draws: standard deviation of the kept fraction 0.0048.
  EXPECT_NEAR(kept / 9170.0, 0.7, 5 * 0.0048);
}

// Invariant kernels-7.
TEST(DropoutTest, MaskOfATokenDoesNotDependOnTheBatchAroundIt) {
  const DropProblem p;
  const Floats x = Normal(p.rows * p.columns, 1);
  Floats whole(x.size()), part(x.size());
  DropoutApply(p.Args(x, &whole, 0.5f), nullptr);
  DropoutArgs tail = p.Args(x, &part, 0.5f);
  tail.rows = 30;
  tail.mask.bins += 40;
  tail.mask.positions += 40;
  tail.x = x.data() + 40 * p.columns;
  DropoutApply(tail, nullptr);
  EXPECT_TRUE(
      std::equal(part.begin(), part.begin() + 30 * p.columns, whole.begin() + 40 * p.columns));
}

TEST(DropoutTest, RateZeroIsTheIdentity) {
  DropProblem p;
  const Floats x = Normal(p.rows * p.columns, 1);
  Floats y(x.size());
  DropoutArgs args = p.Args(x, &y, 0.0f);
  args.mask = {};
  DropoutApply(args, nullptr);
  EXPECT_TRUE(SameBits(x, y));
  EXPECT_FALSE(DropoutSupports({.columns = 4, .rate = 1.0f}));
  EXPECT_FALSE(DropoutSupports({.columns = 262145, .rate = 0.1f}));
}

}  // namespace
}  // namespace dropout_test
}  // namespace coxswain::kernels
