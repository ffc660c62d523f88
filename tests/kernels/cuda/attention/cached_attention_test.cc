#include "kernels/attention/cached_attention.h"

#include "tests/kernels/attention/cached_attention_cases.h"
#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {
namespace gpu_cached_attention_test {
namespace {

class CachedAttentionGpuTest : public testing::TestWithParam<DType> {
 protected:
  // Places of the cache that no row was put to hold NaN.
  Floats Attend(CachedCase c, const Floats& qkv) {
    c.spec.attention.dtype = GetParam();
    const DeviceTensor all(GetParam(), qkv), last(GetParam(), LastOf(c, qkv));
    const DeviceTensor keys(GetParam(), c.key_elements()), values(GetParam(), c.value_elements());
    const DeviceTensor out(GetParam(), static_cast<int64_t>(c.lengths.size()) * c.out_row());
    const DeviceTensor sinks(c.spec.attention.sink_dtype, c.sinks);
    const CachedPlaces every = AllRows(c), asking = LastRows(c);
    const DeviceValues<int32_t> all_sequences(every.sequences), all_positions(every.positions);
    const DeviceValues<int32_t> sequences(asking.sequences), positions(asking.positions);
    const CacheRows rows{static_cast<int64_t>(c.lengths.size()), sequences.data(),
                         positions.data()};
    const Scratch scratch(CachedAttentionWorkspaceBytes(c.spec, rows.count));
    const KeyValueCache cache{keys.data(), values.data()};
    CacheAppend({.spec = c.spec,
                 .rows = {c.tokens(), all_sequences.data(), all_positions.data()},
                 .qkv = all.data(),
                 .cache = cache},
                TestStream());
    CachedAttention({.spec = c.spec,
                     .rows = rows,
                     .qkv = last.data(),
                     .sinks = c.spec.attention.sinks ? sinks.data() : nullptr,
                     .cache = cache,
                     .out = out.data(),
                     .workspace = scratch.workspace()},
                    TestStream());
    return out.Read();
  }
};

// Sums are float32; in bfloat16 the result is rounded once.
TEST_P(CachedAttentionGpuTest, IsTheLastRowOfAttentionOverTheWholeSequence) {
  for (const CachedCase& c : CachedCases()) {
    const Floats qkv = Normal(c.tokens() * c.row(), 1, GetParam());
    const double rounding = GetParam() == DType::kBFloat16 ? kUnit(DType::kBFloat16) : 0.0;
    EXPECT_LE(CachedError(Attend(c, qkv), CachedReference(c, qkv)), CachedBound(c) + rounding)
        << "window " << c.spec.attention.window << " of " << c.longest() << ", heads of "
        << c.spec.attention.head_dim << " and " << ValueDim(c.spec.attention)
        << (c.spec.attention.sinks ? " with sinks" : "");
  }
}

TEST_P(CachedAttentionGpuTest, SinksOfTheTypeOfTheRest) {
  CachedCase c = MakeCachedCase(4, 2, 24, 0, {100, 0, 65});
  c.spec.attention.dtype = GetParam();
  c.spec.attention.sinks = true;
  c.sinks = {0.0f, -1.5f, 2.0f, 4.0f};
  const Floats qkv = Normal(c.tokens() * c.row(), 1, GetParam());
  const Floats as_floats = Attend(c, qkv);
  c.spec.attention.sink_dtype = GetParam();
  EXPECT_TRUE(SameBits(Attend(c, qkv), as_floats));
}

// Invariants kernels-3 and kernels-5.
TEST_P(CachedAttentionGpuTest, RepeatsItsBitsAndSequencesDoNotSeeEachOther) {
  const CachedCase c = MakeCachedCase(4, 2, 64, 0, {40, 700});
  Floats qkv = Normal(c.tokens() * c.row(), 1, GetParam());
  const Floats before = Attend(c, qkv);
  EXPECT_TRUE(SameBits(before, Attend(c, qkv)));
  for (int64_t i = 0; i < 40 * c.row(); ++i) qkv[Size(i)] = 0.5f;
  const Floats after = Attend(c, qkv);
  EXPECT_TRUE(std::equal(before.begin() + c.out_row(), before.end(), after.begin() + c.out_row()));
  EXPECT_FALSE(SameBits(before, after));
}

INSTANTIATE_TEST_SUITE_P(DTypes, CachedAttentionGpuTest,
                         testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace gpu_cached_attention_test
}  // namespace coxswain::kernels
