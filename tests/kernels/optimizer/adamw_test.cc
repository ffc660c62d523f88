#include "kernels/optimizer/adamw.h"

#include <bit>
#include <limits>

#include "kernels/philox.h"
#include "tests/kernels/testing.h"
#include "tests/reference/adamw.h"

namespace coxswain::kernels {
namespace adamw_test {
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

using Halves = std::vector<uint16_t>;

Floats FromBfloat16(const Halves& halves) {
  Floats values;
  for (const uint16_t bits : halves) values.push_back(std::bit_cast<float>(uint32_t{bits} << 16));
  return values;
}

struct RoundedState {
  Floats p;
  Halves m, v;
};

RoundedState FreshRounded(int64_t n) { return {Normal(n, 1), Halves(Size(n)), Halves(Size(n))}; }

// Elements [begin, end) of parameter 9.
void UpdateRounded(RoundedState* s, const Floats& g, int64_t begin, int64_t end, uint32_t step,
                   OptimizerScalars scalars) {
  const AdamWTensor t{.p = s->p.data() + begin,
                      .g = g.data() + begin,
                      .m = s->m.data() + begin,
                      .v = s->v.data() + begin,
                      .n = end - begin,
                      .begin = begin,
                      .weight_decay = 0.1,
                      .index = 9};
  AdamW({.tensors = &t,
         .count = 1,
         .chunks = TensorChunks(t.n),
         .scalars = &scalars,
         .state_dtype = DType::kBFloat16,
         .draws = {.state_key = {11, 22}, .step = &step}},
        nullptr);
}

TEST(AdamWTest, StatesInBfloat16AreRoundedAsStatedAfterTheUpdate) {
  const int64_t n = 1003;
  RoundedState rounded = FreshRounded(n);
  for (uint32_t step = 1; step <= 5; ++step) {
    const Floats g = Normal(n, 100 + step);
    State exact{rounded.p, FromBfloat16(rounded.m), FromBfloat16(rounded.v)};
    OptimizerScalars scalars{.lr = 1e-3, .applied_updates = step - 1};
    UpdateRounded(&rounded, g, 0, n, step, scalars);
    const AdamWTensor t{.p = exact.p.data(),
                        .g = g.data(),
                        .m = exact.m.data(),
                        .v = exact.v.data(),
                        .n = n,
                        .weight_decay = 0.1};
    AdamW({.tensors = &t, .count = 1, .chunks = 1, .scalars = &scalars}, nullptr);
    EXPECT_TRUE(SameBits(rounded.p, exact.p)) << "computed before rounding";
    for (size_t e = 0; e < Size(n); ++e) {
      const PhiloxWords words = Philox({{static_cast<uint32_t>(e / 4), 0, 9, step}}, 11, 22);
      const uint32_t r = words.word[e % 4];
      ASSERT_EQ(rounded.m[e], (std::bit_cast<uint32_t>(exact.m[e]) + (r & 0xffffu)) >> 16);
      ASSERT_EQ(rounded.v[e], (std::bit_cast<uint32_t>(exact.v[e]) + (r >> 16)) >> 16);
    }
  }
}

// Ranks that own a piece each round as one that owns all, as do threads.
TEST(AdamWTest, PiecesOfStatesInBfloat16RoundAsTheWhole) {
  const int64_t n = 40'003;
  const auto updated = [&](const std::vector<int64_t>& cuts, int threads) {
    SetNumThreads(threads);
    RoundedState s = FreshRounded(n);
    for (uint32_t step = 1; step <= 3; ++step) {
      for (size_t i = 0; i + 1 < cuts.size(); ++i) {
        UpdateRounded(&s, Normal(n, 10 + step), cuts[i], cuts[i + 1], step,
                      {.lr = 1e-3, .applied_updates = step - 1});
      }
    }
    SetNumThreads(1);
    return s;
  };
  const RoundedState whole = updated({0, n}, 1);
  for (const RoundedState& other : {updated({0, 64, 67, 20'001, n}, 1), updated({0, n}, 3)}) {
    EXPECT_TRUE(SameBits(other.p, whole.p) && other.m == whole.m && other.v == whole.v);
  }
}

// v moves by 1 - b2 = 1/1000 of itself an update, bfloat16 has 1/256: to nearest it would stand
// still. Of n elements that begin at 1 and see no gradient the mean after k updates is b2^k, and
// its error within 4 sigma of k n roundings, of each of which sigma is at most half the distance of
// neighbours, 2^-9.
TEST(AdamWTest, StatesInBfloat16MoveInTheMean) {
  const int64_t n = 20'000;
  RoundedState s = FreshRounded(n);
  s.v = Halves(Size(n), 0x3f80);
  const Floats zero(Size(n));
  for (uint32_t step = 1; step <= 50; ++step) {
    UpdateRounded(&s, zero, 0, n, step, {.lr = 0, .applied_updates = step - 1});
  }
  double sum = 0;
  for (const float v : FromBfloat16(s.v)) sum += v;
  const double count = static_cast<double>(n);
  EXPECT_NEAR(sum / count, std::pow(0.999, 50), 4 * 0x1p-9 * std::sqrt(50 / count));
}

TEST(AdamWTest, NanInStatesOfBfloat16StaysNan) {
  RoundedState s = FreshRounded(8);
  Floats g(8, 1.0f);
  g[3] = std::bit_cast<float>(0x7fffffffu);  // a carry would make it -0
  UpdateRounded(&s, g, 0, 8, 1, {.lr = 1e-3});
  const Floats m = FromBfloat16(s.m), v = FromBfloat16(s.v);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(std::isnan(m[i]), i == 3);
    EXPECT_EQ(std::isnan(v[i]), i == 3);
  }
}

}  // namespace
}  // namespace adamw_test
}  // namespace coxswain::kernels
