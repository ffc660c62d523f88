#include "kernels/adamw.h"

#include <limits>

#include "tests/kernels/testing.h"
#include "tests/reference/adamw.h"

namespace coxswain::kernels {
namespace {

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

}  // namespace
}  // namespace coxswain::kernels
