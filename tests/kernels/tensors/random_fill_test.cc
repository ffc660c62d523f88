#include "kernels/tensors/whole_tensors.h"

#include "common/philox.h"
#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace random_fill_test {
namespace {

Floats Filled(RandomFillKind kind, double value, int64_t count, uint32_t counter = 3,
              int64_t first = 0) {
  Floats out(Size(count));
  RandomFill({.kind = kind,
              .value = value,
              .key = {1, 2},
              .counter = {counter, 4},
              .first = first,
              .count = count,
              .out = out.data()},
             nullptr);
  return out;
}

TEST(RandomFillTest, DrawsWhatPhiloxSays) {
  const Floats uniform = Filled(RandomFillKind::kUniform, 0.25, 1031);
  const Floats normal = Filled(RandomFillKind::kNormal, 0.5, 1031);
  for (uint32_t i = 0; i < 1031; ++i) {
    const auto words = Philox4x32({i / 4, 0, 3, 4}, {1, 2});
    const auto u = [&](size_t word) { return static_cast<double>(PhiloxUniform(words[word])); };
    EXPECT_EQ(uniform[i], static_cast<float>(0.25 * (2.0 * u(i % 4) - 1.0)));
    const size_t pair = i % 4 / 2 * 2;
    const double radius = std::sqrt(-2.0 * std::log(1.0 - u(pair)));
    const double angle = 2.0 * M_PI * u(pair + 1);
    const double want = 0.5 * radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
    EXPECT_NEAR(normal[i], want, kUnit * std::abs(want) + 1e-300);
  }
  EXPECT_EQ(Filled(RandomFillKind::kConstant, 0.3, 5), Floats(5, 0.3f));
}

// A part of a tensor equals the whole cut there; another counter is another tensor.
TEST(RandomFillTest, AnElementDependsOnItsIndexAndCounterAlone) {
  const Floats whole = Filled(RandomFillKind::kNormal, 1.0, 400000);
  const Floats part = Filled(RandomFillKind::kNormal, 1.0, 1001);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin()));
  for (const int64_t first : {1, 2, 3, 4, 1003}) {
    for (const int64_t count : {0, 1, 2, 5, 998}) {
      const Floats range = Filled(RandomFillKind::kNormal, 1.0, count, 3, first);
      EXPECT_TRUE(std::equal(range.begin(), range.end(), whole.begin() + first)) << first;
    }
  }
  EXPECT_NE(Filled(RandomFillKind::kNormal, 1.0, 8, 5), Filled(RandomFillKind::kNormal, 1.0, 8));
}

// 400,000 values: the mean has standard deviation 0.0016, the mean square 0.0022.
TEST(RandomFillTest, NormalValuesHaveTheirMoments) {
  const Floats values = Filled(RandomFillKind::kNormal, 1.0, 400000);
  double sum = 0, squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / 400000, 0.0, 5 * 0.0016);
  EXPECT_NEAR(squares / 400000, 1.0, 5 * 0.0022);
}

}  // namespace
}  // namespace random_fill_test
}  // namespace coxswain::kernels
