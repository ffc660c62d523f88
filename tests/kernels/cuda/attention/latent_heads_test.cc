#include "kernels/attention/heads.h"

#include <limits>

#include "kernels/rope.h"
#include "kernels/tensors/rows.h"
#include "tests/kernels/cuda/gpu_testing.h"
#include "tests/reference/heads.h"

namespace coxswain::kernels {
namespace gpu_latent_heads_test {
namespace {

Doubles RowAt(const Floats& rows, int64_t row, int64_t width) {
  return {rows.begin() + row * width, rows.begin() + (row + 1) * width};
}

struct LatentGradients {
  Floats dq, dkv, dk_rope;
};

class LatentHeadsGpuTest : public testing::TestWithParam<DType> {
 protected:
  static constexpr int64_t kPositions = 64;

  LatentHeadsSpec Spec(int64_t heads, int64_t nope, int64_t rope, int64_t value,
                       bool interleaved) const {
    return {.dtype = GetParam(),
            .heads = heads,
            .nope = nope,
            .rope = rope,
            .value = value,
            .interleaved = interleaved};
  }
  void ExpectReference(const LatentHeadsSpec& spec, int64_t tokens) const;
};

Floats RunForward(const LatentHeadsSpec& spec, const LatentPlaces& places, const Floats& q,
                  const Floats& kv, const Floats& k_rope) {
  const int64_t tokens = static_cast<int64_t>(k_rope.size()) / spec.rope;
  const DeviceTensor queries(spec.dtype, q), keys(spec.dtype, kv), shared(spec.dtype, k_rope);
  const DeviceTensor qkv(spec.dtype, tokens * LatentPackedRow(spec));
  LatentHeadsForward({.spec = spec,
                      .tokens = tokens,
                      .places = places,
                      .q = queries.data(),
                      .kv = keys.data(),
                      .k_rope = shared.data(),
                      .qkv = qkv.data()},
                     TestStream());
  return qkv.Read();
}

LatentGradients RunBackward(const LatentHeadsSpec& spec, const LatentPlaces& places,
                            const Floats& dqkv) {
  const int64_t tokens = static_cast<int64_t>(dqkv.size()) / LatentPackedRow(spec);
  const DeviceTensor gradient(spec.dtype, dqkv), dq(spec.dtype, tokens * LatentQueryRow(spec));
  const DeviceTensor dkv(spec.dtype, tokens * LatentKeyValueRow(spec));
  const DeviceTensor dk_rope(spec.dtype, tokens * spec.rope);
  LatentHeadsBackward({.spec = spec,
                       .tokens = tokens,
                       .places = places,
                       .dqkv = gradient.data(),
                       .dq = dq.data(),
                       .dkv = dkv.data(),
                       .dk_rope = dk_rope.data()},
                      TestStream());
  return {dq.Read(), dkv.Read(), dk_rope.Read()};
}

// What does not rotate keeps its bits. What does is off by 3 u of its pair, u = 2^-24, and the sum
// over n heads by n u of their sizes; then one rounding to the type. Values are below 6.
void LatentHeadsGpuTest::ExpectReference(const LatentHeadsSpec& spec, int64_t tokens) const {
  SCOPED_TRACE(testing::Message() << spec.heads << " heads of " << spec.nope << " + " << spec.rope
                                  << " and " << spec.value
                                  << (spec.interleaved ? ", interleaved" : ""));
  const RopeTable table = BuildRopeTable({.rotated = spec.rope}, kPositions);
  std::vector<int32_t> positions;
  for (int64_t t = 0; t < tokens; ++t)
    positions.push_back(static_cast<int32_t>(t * 7 % kPositions));
  const DeviceTensor cos(DType::kFloat32, table.cos), sin(DType::kFloat32, table.sin);
  const DeviceValues<int32_t> places_of(positions);
  const LatentPlaces places{cos.floats(), sin.floats(), places_of.data()};
  const Floats q = Normal(tokens * LatentQueryRow(spec), 1, spec.dtype);
  const Floats kv = Normal(tokens * LatentKeyValueRow(spec), 2, spec.dtype);
  const Floats k_rope = Normal(tokens * spec.rope, 3, spec.dtype);
  const Floats dqkv = Normal(tokens * LatentPackedRow(spec), 4, spec.dtype);
  const Floats qkv = RunForward(spec, places, q, kv, k_rope);
  const LatentGradients got = RunBackward(spec, places, dqkv);
  const LatentGradients again = RunBackward(spec, places, dqkv);
  EXPECT_TRUE(SameBits(got.dk_rope, again.dk_rope));
  const reference::LatentShape shape{spec.heads, spec.nope, spec.rope, spec.value,
                                     spec.interleaved};
  const double unit = kUnit(DType::kFloat32);
  const double rounding = spec.dtype == DType::kFloat32 ? 0 : kUnit(spec.dtype);
  const auto expect_near = [&](const Floats& values, int64_t row, const Doubles& want, double bound,
                               const char* what) {
    for (size_t j = 0; j < want.size(); ++j) {
      ASSERT_NEAR(values[Size(row) * want.size() + j], want[j],
                  bound + rounding * std::abs(want[j]))
          << what << ", token " << row << ", element " << j;
    }
  };
  for (int64_t t = 0; t < tokens; ++t) {
    const Doubles c = RowAt(table.cos, positions[Size(t)], spec.rope / 2);
    const Doubles s = RowAt(table.sin, positions[Size(t)], spec.rope / 2);
    const Doubles want = reference::LatentHeads<double>(
        shape,
        {RowAt(q, t, LatentQueryRow(spec)), RowAt(kv, t, LatentKeyValueRow(spec)),
         RowAt(k_rope, t, spec.rope)},
        c.data(), s.data());
    const auto gradient = reference::LatentHeadsBackward<double>(
        shape, RowAt(dqkv, t, LatentPackedRow(spec)), c.data(), s.data());
    const auto n = static_cast<double>(spec.heads);
    expect_near(qkv, t, want, 18 * unit, "qkv");
    expect_near(got.dq, t, gradient.q, 18 * unit, "dq");
    expect_near(got.dkv, t, gradient.kv, 0, "dkv");
    expect_near(got.dk_rope, t, gradient.k_rope, 6 * (n + 3) * unit * n, "dk_rope");
  }
}

TEST_P(LatentHeadsGpuTest, MatchesReferenceForEveryTail) {
  for (const bool interleaved : {false, true}) {
    for (const int64_t n : {1, 2, 3, 4, 5, 8, 9, 17}) {
      ExpectReference(Spec(3, n, 2 * n, n + 1, interleaved), 5);
      ExpectReference(Spec(n, 16, 16, 24, interleaved), 5);
    }
    ExpectReference(Spec(2, 8, 1040, 8, interleaved), 3);  // more pairs than threads
    ExpectReference(Spec(2, 8, 4160, 8, interleaved), 3);
  }
}

TEST_P(LatentHeadsGpuTest, MatchesReferenceForModels) {
  ExpectReference(Spec(128, 128, 64, 128, true), 9);
  ExpectReference(Spec(20, 192, 64, 256, true), 33);
  ExpectReference(Spec(16, 128, 64, 128, false), 33);
}

TEST_P(LatentHeadsGpuTest, NoTokensDoNothing) {
  const LatentHeadsSpec spec = Spec(2, 8, 8, 8, false);
  LatentHeadsForward({.spec = spec}, TestStream());
  LatentHeadsBackward({.spec = spec}, TestStream());
  EXPECT_FALSE(LatentHeadsSupports(Spec(2, 8, 7, 8, false)));
  EXPECT_FALSE(LatentHeadsSupports(Spec(2, 8, 8, 0, false)));
}

TEST_P(LatentHeadsGpuTest, SplitRowsTakesRowsApartAndTogether) {
  for (const auto& [n, m] : {std::pair{int64_t{5}, int64_t{3}}, {int64_t{512}, int64_t{64}}}) {
    const SplitRowsSpec spec{.dtype = GetParam(), .first = n, .second = m};
    const int64_t rows = 37;
    const Floats values = Normal(rows * (n + m), 1, GetParam());
    const DeviceTensor x(GetParam(), values), first(GetParam(), rows * n);
    const DeviceTensor second(GetParam(), rows * m), again(GetParam(), rows * (n + m));
    SplitRowsForward(
        {.spec = spec, .rows = rows, .x = x.data(), .first = first.data(), .second = second.data()},
        TestStream());
    SplitRowsBackward({.spec = spec,
                       .rows = rows,
                       .dfirst = first.data(),
                       .dsecond = second.data(),
                       .dx = again.data()},
                      TestStream());
    EXPECT_EQ(first.Read()[Size(n)], values[Size(n + m)]);
    EXPECT_EQ(second.Read()[Size(m)], values[Size(n + m + n)]);
    EXPECT_TRUE(SameBits(again.Read(), values));
  }
  SplitRowsForward({.spec = {.dtype = GetParam(), .first = 1, .second = 1}}, TestStream());
  EXPECT_FALSE(SplitRowsSupports({.dtype = GetParam(), .first = 1}));
}

INSTANTIATE_TEST_SUITE_P(DTypes, LatentHeadsGpuTest,
                         testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace gpu_latent_heads_test
}  // namespace coxswain::kernels
