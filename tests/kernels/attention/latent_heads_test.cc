#include "kernels/attention/heads.h"

#include <limits>

#include "kernels/rope.h"
#include "kernels/tensors/rows.h"
#include "tests/kernels/testing.h"
#include "tests/reference/heads.h"

namespace coxswain::kernels {
namespace latent_heads_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Doubles RowAt(const Floats& rows, int64_t row, int64_t width) {
  return {rows.begin() + row * width, rows.begin() + (row + 1) * width};
}

struct LatentSample {
  LatentHeadsSpec spec;
  std::vector<int32_t> positions = {3, 0, 7, 2, 7};
  RopeTable table = BuildRopeTable({.rotated = spec.rope}, 8);
  Floats q = Normal(5 * LatentQueryRow(spec), 1);
  Floats kv = Normal(5 * LatentKeyValueRow(spec), 2);
  Floats k_rope = Normal(5 * spec.rope, 3);
  Floats dqkv = Normal(5 * LatentPackedRow(spec), 4);

  LatentPlaces places() const { return {table.cos.data(), table.sin.data(), positions.data()}; }
  int64_t tokens() const { return static_cast<int64_t>(positions.size()); }
};

// What does not rotate keeps its bits; what does is off by 3 u of its pair (two products, a sum),
// and a gradient of all heads by as much as their sum, n - 1 roundings, as well.
void ExpectLatentReference(const LatentHeadsSpec& spec) {
  const LatentSample sample{.spec = spec};
  const int64_t tokens = sample.tokens();
  Floats qkv(Size(tokens * LatentPackedRow(spec)), kNan), dq(sample.q.size(), kNan);
  Floats dkv(sample.kv.size(), kNan), dk_rope(sample.k_rope.size(), kNan);
  {
    ExpectNoAllocation none;
    LatentHeadsForward({.spec = spec,
                        .tokens = tokens,
                        .places = sample.places(),
                        .q = sample.q.data(),
                        .kv = sample.kv.data(),
                        .k_rope = sample.k_rope.data(),
                        .qkv = qkv.data()},
                       nullptr);
    LatentHeadsBackward({.spec = spec,
                         .tokens = tokens,
                         .places = sample.places(),
                         .dqkv = sample.dqkv.data(),
                         .dq = dq.data(),
                         .dkv = dkv.data(),
                         .dk_rope = dk_rope.data()},
                        nullptr);
  }
  const reference::LatentShape shape{spec.heads, spec.nope, spec.rope, spec.value,
                                     spec.interleaved};
  const auto expect_near = [](const Floats& got, int64_t row, const Doubles& want, double bound,
                              const char* what) {
    for (size_t j = 0; j < want.size(); ++j) {
      ASSERT_NEAR(got[Size(row) * want.size() + j], want[j], bound) << what << " " << j;
    }
  };
  for (int64_t t = 0; t < tokens; ++t) {
    const Doubles cos = RowAt(sample.table.cos, sample.positions[Size(t)], spec.rope / 2);
    const Doubles sin = RowAt(sample.table.sin, sample.positions[Size(t)], spec.rope / 2);
    const Doubles want = reference::LatentHeads<double>(
        shape,
        {RowAt(sample.q, t, LatentQueryRow(spec)), RowAt(sample.kv, t, LatentKeyValueRow(spec)),
         RowAt(sample.k_rope, t, spec.rope)},
        cos.data(), sin.data());
    const auto gradient = reference::LatentHeadsBackward<double>(
        shape, RowAt(sample.dqkv, t, LatentPackedRow(spec)), cos.data(), sin.data());
    constexpr double kLargest = 6;  // of the values
    expect_near(qkv, t, want, 3 * kUnit * kLargest, "qkv");
    expect_near(dq, t, gradient.q, 3 * kUnit * kLargest, "dq");
    expect_near(dkv, t, gradient.kv, 0, "dkv");
    const auto n = static_cast<double>(spec.heads);
    expect_near(dk_rope, t, gradient.k_rope, (n + 3) * kUnit * n * kLargest, "dk_rope");
  }
}

TEST(LatentHeadsTest, MatchesReferenceForEveryTail) {
  for (const bool interleaved : {false, true}) {
    for (const int64_t n : {1, 2, 3, 8, 17}) {
      ExpectLatentReference(
          {.heads = 3, .nope = n, .rope = 2 * n, .value = n + 1, .interleaved = interleaved});
      ExpectLatentReference(
          {.heads = n, .nope = 16, .rope = 8, .value = 24, .interleaved = interleaved});
    }
  }
}

// Invariant kernels-6.
TEST(LatentHeadsTest, NanReachesItsTokenAlone) {
  LatentSample sample{.spec = {.heads = 2, .nope = 2, .rope = 2, .value = 2}};
  sample.k_rope[0] = kNan;
  Floats qkv(Size(5 * LatentPackedRow(sample.spec)), 0.0f);
  LatentHeadsForward({.spec = sample.spec,
                      .tokens = 5,
                      .places = sample.places(),
                      .q = sample.q.data(),
                      .kv = sample.kv.data(),
                      .k_rope = sample.k_rope.data(),
                      .qkv = qkv.data()},
                     nullptr);
  int64_t nans = 0;
  for (const float value : qkv) nans += std::isnan(value) ? 1 : 0;
  EXPECT_EQ(nans, 4);  // a pair of each head
  LatentHeadsSpec spec = sample.spec;
  EXPECT_TRUE(LatentHeadsSupports(spec));
  spec.rope = 3;
  EXPECT_FALSE(LatentHeadsSupports(spec));
  spec = sample.spec;
  spec.dtype = DType::kBFloat16;
  EXPECT_FALSE(LatentHeadsSupports(spec));
}

TEST(SplitRowsTest, TakesRowsApartAndTogether) {
  const SplitRowsSpec spec{.first = 5, .second = 3};
  const Floats x = Normal(7 * 8, 1);
  Floats first(7 * 5, kNan), second(7 * 3, kNan), again(7 * 8, kNan);
  {
    ExpectNoAllocation none;
    SplitRowsForward(
        {.spec = spec, .rows = 7, .x = x.data(), .first = first.data(), .second = second.data()},
        nullptr);
    SplitRowsBackward({.spec = spec,
                       .rows = 7,
                       .dfirst = first.data(),
                       .dsecond = second.data(),
                       .dx = again.data()},
                      nullptr);
  }
  EXPECT_EQ(first[5], x[8]);
  EXPECT_EQ(second[3], x[13]);
  EXPECT_TRUE(SameBits(again, x));
  EXPECT_FALSE(SplitRowsSupports({.first = 5}));
  EXPECT_FALSE(SplitRowsSupports({.dtype = DType::kBFloat16, .first = 5, .second = 3}));
}

}  // namespace
}  // namespace latent_heads_test
}  // namespace coxswain::kernels
