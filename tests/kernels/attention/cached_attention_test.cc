#include "kernels/attention/cached_attention.h"

#include <limits>

#include "tests/kernels/attention/cached_attention_cases.h"
#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace cached_attention_test {
namespace {

// Places that no row was put to hold NaN.
struct Cache {
  explicit Cache(const CachedCase& c)
      : keys(Size(c.key_elements()), std::numeric_limits<float>::quiet_NaN()),
        values(Size(c.value_elements()), std::numeric_limits<float>::quiet_NaN()) {}
  KeyValueCache view() { return {keys.data(), values.data()}; }
  Floats keys, values;
};

CacheRows View(const CachedPlaces& places) {
  return {static_cast<int64_t>(places.sequences.size()), places.sequences.data(),
          places.positions.data()};
}

Floats Attend(const CachedCase& c, const Floats& qkv) {
  Cache cache(c);
  const CachedPlaces all = AllRows(c), last = LastRows(c);
  const Floats rows = LastOf(c, qkv);
  Floats out(c.lengths.size() * Size(c.out_row()), std::numeric_limits<float>::quiet_NaN());
  Scratch scratch(CachedAttentionWorkspaceBytes(c.spec, View(last).count));
  const ExpectNoAllocation launches;
  CacheAppend({.spec = c.spec, .rows = View(all), .qkv = qkv.data(), .cache = cache.view()},
              nullptr);
  CachedAttention({.spec = c.spec,
                   .rows = View(last),
                   .qkv = rows.data(),
                   .sinks = c.spec.attention.sinks ? c.sinks.data() : nullptr,
                   .cache = cache.view(),
                   .out = out.data(),
                   .workspace = scratch.view()},
                  nullptr);
  return out;
}

TEST(CachedAttentionTest, IsTheLastRowOfAttentionOverTheWholeSequence) {
  for (const CachedCase& c : CachedCases()) {
    const Floats qkv = Normal(c.tokens() * c.row(), 1);
    EXPECT_LE(CachedError(Attend(c, qkv), CachedReference(c, qkv)), CachedBound(c))
        << "window " << c.spec.attention.window << " of " << c.longest() << ", heads of "
        << c.spec.attention.head_dim << " and " << ValueDim(c.spec.attention)
        << (c.spec.attention.sinks ? " with sinks" : "");
  }
}

// Invariant kernels-5: another sequence changes no bit.
TEST(CachedAttentionTest, SequencesDoNotSeeEachOther) {
  const CachedCase c = MakeCachedCase(4, 2, 8, 0, {40, 70});
  Floats qkv = Normal(c.tokens() * c.row(), 1);
  Floats before = Attend(c, qkv);
  for (int64_t i = 0; i < 40 * c.row(); ++i) qkv[Size(i)] += 1.0f;
  Floats after = Attend(c, qkv);
  EXPECT_TRUE(std::equal(before.begin() + c.out_row(), before.end(), after.begin() + c.out_row()));
  EXPECT_FALSE(SameBits(before, after));
}

// Invariant kernels-6.
TEST(CachedAttentionTest, NaNInAKeyReachesTheHeadsThatSeeIt) {
  const CachedCase c = MakeCachedCase(4, 2, 8, 10, {40});
  Floats qkv = Normal(c.tokens() * c.row(), 1);
  qkv[Size(20 * c.row() + 4 * 8)] = std::numeric_limits<float>::quiet_NaN();  // not in the window
  EXPECT_FALSE(std::isnan(Attend(c, qkv)[0]));
  qkv[Size(35 * c.row() + 4 * 8)] = std::numeric_limits<float>::quiet_NaN();
  const Floats out = Attend(c, qkv);
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_FALSE(std::isnan(out[2 * 8]));  // of the other keys
}

TEST(CachedAttentionTest, LargerHeadsAreNotSupported) {
  CachedCase c = MakeCachedCase(1, 1, 256, 0, {1});
  EXPECT_TRUE(CachedAttentionSupports(c.spec));
  c.spec.attention.head_dim = 258;
  EXPECT_FALSE(CachedAttentionSupports(c.spec));
  c.spec.attention.head_dim = 128;
  c.spec.attention.value_dim = 258;
  EXPECT_FALSE(CachedAttentionSupports(c.spec));
}

}  // namespace
}  // namespace cached_attention_test
}  // namespace coxswain::kernels
