#include "kernels/attention/attention.h"

#include <functional>
#include <limits>
#include <numeric>

#include "tests/kernels/attention_heads.h"
#include "tests/kernels/testing.h"
#include "tests/reference/attention.h"

namespace coxswain::kernels {
namespace attention_test {
namespace {

struct Problem {
  AttentionSpec spec;
  std::vector<int32_t> lengths;
  Floats sinks = {};
  float sink_start = 0.0f;  // what their gradients are added to

  const float* sink_data() const { return spec.sinks ? sinks.data() : nullptr; }
  int64_t tokens() const { return std::accumulate(lengths.begin(), lengths.end(), int64_t{0}); }
  int64_t row() const { return PackedRow(spec); }
  int64_t out_row() const { return spec.num_heads * ValueDim(spec); }
  std::vector<int32_t> cu_seqlens() const {
    std::vector<int32_t> cu = {0};
    for (int32_t length : lengths) cu.push_back(cu.back() + length);
    return cu;
  }
  int64_t longest() const {
    return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
  }
};

Problem Make(int64_t heads, int64_t kv_heads, int64_t dim, int64_t window,
             std::vector<int32_t> lengths) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
  return {.spec = {.num_heads = heads,
                   .num_kv_heads = kv_heads,
                   .head_dim = dim,
                   .window = window,
                   .scale = scale},
          .lengths = std::move(lengths)};
}

Problem WithValues(Problem p, int64_t value_dim) {
  p.spec.value_dim = value_dim;
  return p;
}
Problem WithSinks(Problem p, Floats sinks) {
  p.spec.sinks = true;
  p.sinks = std::move(sinks);
  return p;
}

struct Result {
  Floats out, lse, dqkv, dsinks;
};

// `rotation`: what turned q and k; of a qkv of its own.
Result Compute(const Problem& p, const Floats& qkv, const Floats& dout,
               const RopeArgs* rotation = nullptr) {
  const std::vector<int32_t> cu = p.cu_seqlens();
  const Documents documents{.count = static_cast<int64_t>(p.lengths.size()),
                            .cu_seqlens = cu.data(),
                            .max_length = p.longest()};
  const int64_t tokens = p.tokens();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Result r{Floats(Size(tokens * p.out_row()), nan), Floats(Size(tokens * p.spec.num_heads), nan),
           Floats(qkv.size(), nan), Floats(p.sinks.size(), p.sink_start)};
  Scratch forward(
      AttentionForwardWorkspaceBytes(p.spec, {.tokens = tokens, .max_length = p.longest()}));
  Scratch backward(
      AttentionBackwardWorkspaceBytes(p.spec, {.tokens = tokens, .max_length = p.longest()}));
  RopeArgs back;
  if (rotation != nullptr) back = *rotation;
  back.qkv = r.dqkv.data();
  const ExpectNoAllocation launches;
  AttentionForward({.spec = p.spec,
                    .tokens = tokens,
                    .documents = documents,
                    .in = PackedInputs(p.spec, qkv.data()),
                    .sinks = p.sink_data(),
                    .out = r.out.data(),
                    .lse = r.lse.data(),
                    .workspace = forward.view()},
                   nullptr);
  AttentionBackward({.spec = p.spec,
                     .tokens = tokens,
                     .documents = documents,
                     .in = PackedInputs(p.spec, qkv.data()),
                     .sinks = p.sink_data(),
                     .out = r.out.data(),
                     .lse = r.lse.data(),
                     .dout = dout.data(),
                     .gradients = PackedOutputs(p.spec, r.dqkv.data()),
                     .sink_gradient = p.spec.sinks ? r.dsinks.data() : nullptr,
                     .workspace = backward.view(),
                     .rotation = rotation == nullptr ? nullptr : &back},
                    nullptr);
  return r;
}

Floats RandomQkv(const Problem& p) { return Normal(p.tokens() * p.row(), 1); }
Floats RandomDout(const Problem& p) { return Normal(p.tokens() * p.out_row(), 2); }

double Norm(const Doubles& values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

void ExpectRelative(const Floats& actual, const Doubles& expected, double bound, const char* what) {
  ASSERT_EQ(actual.size(), expected.size());
  Doubles difference(expected);
  for (size_t i = 0; i < actual.size(); ++i) difference[i] -= actual[i];
  ASSERT_LE(Norm(difference), bound * Norm(expected) + 1e-30) << what;
}

// A score is a dot product of hd terms, off by (hd + 2) u |q| |k| scale, which is below (hd + 2) u
// 5 hd scale here, and a probability by twice that, 8 u of Exp and division, and n u of its sum.
// Products with P then add n u, those with dS at most twice dP - D's cancellation.
double Bound(const Problem& p) {
  const double dim = static_cast<double>(p.spec.head_dim), n = static_cast<double>(p.longest());
  const double score = (dim + 2) * 5 * dim * p.spec.scale;
  return 4 * (2 * std::sqrt(dim) / dim * score + 8 + n) * kUnit;
}

void CheckAgainstReference(const Problem& p) {
  const Floats qkv = RandomQkv(p), dout = RandomDout(p);
  const Result got = Compute(p, qkv, dout);
  const Doubles x = Double(qkv), dy = Double(dout), logits = Double(p.sinks);
  const double* sinks = p.spec.sinks ? logits.data() : nullptr;
  Doubles out(got.out.size()), lse(got.lse.size()), dqkv(qkv.size()), dsinks(logits.size());
  int64_t start = 0;
  for (const int32_t length : p.lengths) {
    const reference::AttentionShape<double> shape{
        length,        p.spec.num_heads, p.spec.num_kv_heads, p.spec.head_dim,
        p.spec.window, p.spec.scale,     p.spec.softcap,      p.spec.value_dim};
    Doubles document_lse(Size(length * p.spec.num_heads));
    reference::Attention(shape, &x[Size(start * p.row())], &out[Size(start * p.out_row())],
                         document_lse.data(), sinks);
    reference::AttentionBackward(shape, &x[Size(start * p.row())], &dy[Size(start * p.out_row())],
                                 &dqkv[Size(start * p.row())], nullptr, sinks, dsinks.data());
    for (int64_t h = 0; h < p.spec.num_heads; ++h) {
      std::copy_n(document_lse.begin() + h * length, length, lse.begin() + h * p.tokens() + start);
    }
    start += length;
  }
  ExpectRelative(got.out, out, Bound(p), "out");
  ExpectRelative(got.lse, lse, Bound(p), "lse");
  EXPECT_LE(WorstHead(p.spec, got.dqkv, dqkv, Bound(p)), 1.0);
  // A row's D is off by its vd products, a sum over the tokens by their number, which Bound has.
  const Doubles terms = SinkTerms(p.spec, p.sinks, out, dout, [&](int64_t t, int64_t h) {
    return lse[Size(h * p.tokens() + t)];
  });
  ExpectSinkGradient(got.dsinks, dsinks, terms,
                     Bound(p) + static_cast<double>(p.tokens() + ValueDim(p.spec)) * kUnit);
  for (int64_t h = 0; Norm(dqkv) > 1e-20 && h < AllHeads(p.spec); ++h) {
    if (HeadNorm(p.spec, dqkv, h) < 1e-3 * Norm(dqkv))
      continue;  // tokens that see themselves alone
    EXPECT_GT(WorstHead(p.spec, WithOneHeadOff(p.spec, got.dqkv, h), dqkv, Bound(p)), 1.0) << h;
  }
}

TEST(AttentionTest, GroupedHeadsOverOddDocuments) {
  CheckAgainstReference(Make(6, 2, 16, 0, {1, 2, 7, 64, 65, 131, 1, 43}));
}
TEST(AttentionTest, OneHead) { CheckAgainstReference(Make(1, 1, 8, 0, {129, 128, 127, 1})); }
TEST(AttentionTest, EveryHeadItsOwnKeys) { CheckAgainstReference(Make(3, 3, 5, 0, {33, 4})); }
TEST(AttentionTest, OneKeyHeadForManyQueries) {
  CheckAgainstReference(Make(14, 1, 7, 0, {40, 17, 1}));
}
TEST(AttentionTest, LongDocument) { CheckAgainstReference(Make(2, 1, 8, 0, {700})); }

TEST(AttentionTest, WindowsOfEverySizeAroundTheBlock) {
  for (const int64_t window : {1, 2, 16, 63, 64, 65, 199, 200, 1000}) {
    CheckAgainstReference(Make(4, 2, 8, window, {200, 1, 66, 64}));
  }
}

TEST(AttentionTest, Softcap) {
  for (const float softcap : {0.5f, 3.0f, 50.0f}) {
    Problem p = Make(4, 2, 8, softcap > 1.0f ? 0 : 40, {100, 33, 1});
    p.spec.softcap = softcap;
    CheckAgainstReference(p);
  }
}

TEST(AttentionTest, WindowSoftcapAndScaleTogether) {
  for (const int64_t dim : {8, 64, 256}) {
    for (const float scale : {0.02f, 0.2f}) {
      for (const float softcap : {0.0f, 2.0f, 50.0f}) {
        Problem p = Make(4, 2, dim, 20, {70, 33, 1});
        p.spec.scale = scale;
        p.spec.softcap = softcap;
        CheckAgainstReference(p);
      }
    }
  }
}

TEST(AttentionTest, ValuesOfAnotherWidth) {
  for (const auto& [dim, value_dim] :
       {std::pair{192, 128}, std::pair{24, 16}, std::pair{16, 8}, std::pair{5, 9}}) {
    for (const int64_t window : {0, 20}) {
      CheckAgainstReference(WithValues(Make(4, 2, dim, window, {70, 0, 33, 1}), value_dim));
    }
  }
  Problem p = WithValues(Make(3, 1, 16, 20, {70, 33, 1}), 8);
  p.spec.softcap = 2.0f;
  CheckAgainstReference(p);
}

Floats MixedSinks() { return {0.0f, -1.5f, 2.0f, -40.0f, 40.0f, 0.25f}; }

TEST(AttentionTest, SinksTakePartInTheSoftmax) {
  for (const int64_t window : {0, 1, 20, 128}) {
    CheckAgainstReference(WithSinks(Make(6, 2, 16, window, {1, 0, 131, 64, 0, 7}), MixedSinks()));
  }
  Problem p = WithSinks(WithValues(Make(6, 1, 24, 20, {0, 70, 33, 1}), 16), MixedSinks());
  CheckAgainstReference(p);
  p.spec.softcap = 2.0f;
  CheckAgainstReference(p);
}

TEST(AttentionTest, SinksFarAboveAndBelowAllScores) {
  for (const float logit : {0.0f, -200.0f, 200.0f}) {
    CheckAgainstReference(WithSinks(Make(4, 2, 8, 0, {100, 33}), Floats(4, logit)));
  }
  const Problem none = Make(4, 2, 8, 0, {100, 33}), low = WithSinks(none, Floats(4, -200.0f));
  const Floats qkv = RandomQkv(none), dout = RandomDout(none);
  const Result a = Compute(none, qkv, dout), b = Compute(low, qkv, dout);
  EXPECT_TRUE(SameBits(a.out, b.out) && SameBits(a.lse, b.lse) && SameBits(a.dqkv, b.dqkv));
  const Result high = Compute(WithSinks(none, Floats(4, 1e4f)), qkv, dout);
  EXPECT_TRUE(SameBits(high.lse, Floats(high.lse.size(), 1e4f)));
  EXPECT_EQ(std::count(high.out.begin(), high.out.end(), 0.0f),
            static_cast<int64_t>(high.out.size()));
}

TEST(AttentionTest, GradientsOfSinksAreAddedToWhatIsThere) {
  Problem p = WithSinks(Make(6, 2, 16, 40, {1, 70, 65}), MixedSinks());
  const Floats qkv = RandomQkv(p), dout = RandomDout(p);
  const Result from_zero = Compute(p, qkv, dout);
  EXPECT_TRUE(SameBits(from_zero.dsinks, Compute(p, qkv, dout).dsinks));
  p.sink_start = 3.0f;
  const Result added = Compute(p, qkv, dout);
  for (size_t h = 0; h < 6; ++h) {
    // A block of rows at a time: few roundings of numbers up to 3 and the gradient.
    const double largest = 3.0 + std::abs(from_zero.dsinks[h]);
    EXPECT_NEAR(added.dsinks[h], 3.0 + from_zero.dsinks[h], 40 * kUnit * largest) << h;
  }
  EXPECT_TRUE(SameBits(added.dqkv, from_zero.dqkv));
}

TEST(AttentionTest, EmptyDocumentsAndNoTokens) {
  CheckAgainstReference(Make(4, 2, 8, 0, {0, 5, 0, 0, 9, 0}));
  const Problem none = Make(4, 2, 8, 0, {});
  Compute(none, {}, {});
}

TEST(AttentionTest, WindowAsLongAsTheDocumentIsFullAttention) {
  Problem p = Make(2, 1, 8, 0, {90});
  const Floats qkv = RandomQkv(p), dout = RandomDout(p);
  const Result full = Compute(p, qkv, dout);
  p.spec.window = 90;
  const Result windowed = Compute(p, qkv, dout);
  EXPECT_TRUE(SameBits(full.out, windowed.out));
  EXPECT_TRUE(SameBits(full.dqkv, windowed.dqkv));
  p.spec.window = 89;
  EXPECT_FALSE(SameBits(full.out, Compute(p, qkv, dout).out));
}

// Invariant kernels-5.
TEST(AttentionTest, PackedIsBitEqualToOneByOne) {
  const Problem packed = Make(4, 2, 8, 0, {3, 70, 1, 129, 20});
  const Floats qkv = RandomQkv(packed), dout = RandomDout(packed);
  const Result all = Compute(packed, qkv, dout);
  int64_t start = 0;
  for (const int32_t length : packed.lengths) {
    const Problem one = Make(4, 2, 8, 0, {length});
    const auto rows = [&](const Floats& v, int64_t row) {
      return Floats(v.begin() + start * row, v.begin() + (start + length) * row);
    };
    const Result alone = Compute(one, rows(qkv, one.row()), rows(dout, one.out_row()));
    EXPECT_TRUE(SameBits(alone.out, rows(all.out, one.out_row())));
    EXPECT_TRUE(SameBits(alone.dqkv, rows(all.dqkv, one.row())));
    start += length;
  }
}

// Invariant kernels-5.
TEST(AttentionTest, NanInOneDocumentLeavesTheOthersBitEqual) {
  const Problem p = Make(4, 2, 8, 0, {30, 70, 20});
  const Floats qkv = RandomQkv(p);
  Floats dout = RandomDout(p), broken = qkv;
  for (int64_t i = 30 * p.row(); i < 100 * p.row(); ++i) {
    broken[Size(i)] = i % 3 == 0 ? std::numeric_limits<float>::quiet_NaN() : 7.0f;
  }
  const Result clean = Compute(p, qkv, dout), got = Compute(p, broken, dout);
  for (const auto& [first, last] : {std::pair{0, 30}, std::pair{100, 120}}) {
    EXPECT_TRUE(std::equal(got.out.begin() + first * p.out_row(),
                           got.out.begin() + last * p.out_row(),
                           clean.out.begin() + first * p.out_row()));
    EXPECT_TRUE(std::equal(got.dqkv.begin() + first * p.row(), got.dqkv.begin() + last * p.row(),
                           clean.dqkv.begin() + first * p.row()));
  }
  EXPECT_TRUE(std::isnan(got.out[Size(99 * p.out_row())]));
}

TEST(AttentionTest, LaterTokensDoNotReachEarlierOnes) {
  const Problem p = Make(2, 1, 8, 0, {150});
  Floats qkv = RandomQkv(p);
  const Floats dout = RandomDout(p);
  const Floats before = Compute(p, qkv, dout).out;
  for (int64_t i = 100 * p.row(); i < 150 * p.row(); ++i) qkv[Size(i)] += 1.0f;
  const Floats after = Compute(p, qkv, dout).out;
  EXPECT_TRUE(std::equal(after.begin(), after.begin() + 100 * p.out_row(), before.begin()));
  EXPECT_NE(after[Size(100 * p.out_row())], before[Size(100 * p.out_row())]);
}

TEST(AttentionTest, LargeScoresStayFinite) {
  const Problem p = Make(2, 1, 8, 0, {40});
  Floats qkv = RandomQkv(p);
  for (float& value : qkv) value *= 100.0f;  // scores up to 1e5
  const Result r = Compute(p, qkv, RandomDout(p));
  for (const Floats* v : {&r.out, &r.lse, &r.dqkv}) {
    EXPECT_TRUE(std::all_of(v->begin(), v->end(), [](float x) { return std::isfinite(x); }));
  }
}

// Invariant kernels-3.
TEST(AttentionTest, SameBitsTwice) {
  const Problem p = Make(6, 2, 16, 40, {1, 2, 7, 64, 65, 131, 1, 43});
  const Floats qkv = RandomQkv(p), dout = RandomDout(p);
  const Result a = Compute(p, qkv, dout), b = Compute(p, qkv, dout);
  EXPECT_TRUE(SameBits(a.out, b.out) && SameBits(a.lse, b.lse) && SameBits(a.dqkv, b.dqkv));
}

TEST(AttentionTest, ThousandsOfDocuments) {
  const Problem p = Make(2, 1, 4, 0, std::vector<int32_t>(3000, 1));
  const Floats qkv = RandomQkv(p);
  const Result r = Compute(p, qkv, RandomDout(p));
  for (int64_t t = 0; t < 3000; ++t) {  // a lone token attends to itself: out = v
    for (int64_t c = 0; c < 8; ++c) {
      ASSERT_EQ(r.out[Size(t * 8 + c)], qkv[Size(t * p.row() + 12 + c % 4)]);
    }
  }
}

TEST(AttentionTest, WorkspaceIsBoundedByTheWindow) {
  const Problem full = Make(8, 2, 64, 0, {}), window = Make(8, 2, 64, 128, {});
  EXPECT_LE(AttentionBackwardWorkspaceBytes(full.spec, {.tokens = 1 << 20, .max_length = 2048}),
            3 << 20);
  EXPECT_LE(AttentionBackwardWorkspaceBytes(window.spec, {.tokens = 1 << 20, .max_length = 131072}),
            1 << 20);
}

// v_row: of v and dv; 0: as k and dk.
void CheckViews(Problem p, int64_t v_row) {
  const Floats qkv = RandomQkv(p), dout = RandomDout(p);
  const Result packed = Compute(p, qkv, dout);
  const int64_t row = p.row(), tokens = p.tokens(), q_width = 4 * p.spec.head_dim;
  const int64_t k_width = 2 * p.spec.head_dim, v_width = 2 * ValueDim(p.spec);
  p.spec.q_row = q_width + 8;
  p.spec.kv_row = k_width + 8;
  p.spec.v_row = v_row;
  const int64_t v_at = q_width + k_width;
  const Floats q = Columns(qkv, row, 0, q_width, QueryRow(p.spec)),
               k = Columns(qkv, row, q_width, k_width, KeyRow(p.spec)),
               v = Columns(qkv, row, v_at, v_width, ValueRow(p.spec));
  Floats dq = q, dk = k, dv = v, out(packed.out.size()), lse(packed.lse.size());
  const std::vector<int32_t> cu = p.cu_seqlens();
  const Documents documents{.count = 4, .cu_seqlens = cu.data(), .max_length = p.longest()};
  Scratch scratch(
      AttentionBackwardWorkspaceBytes(p.spec, {.tokens = tokens, .max_length = p.longest()}));
  AttentionForward({.spec = p.spec,
                    .tokens = tokens,
                    .documents = documents,
                    .in = {q.data(), k.data(), v.data()},
                    .out = out.data(),
                    .lse = lse.data(),
                    .workspace = scratch.view()},
                   nullptr);
  AttentionBackward({.spec = p.spec,
                     .tokens = tokens,
                     .documents = documents,
                     .in = {q.data(), k.data(), v.data()},
                     .out = out.data(),
                     .lse = lse.data(),
                     .dout = dout.data(),
                     .gradients = {dq.data(), dk.data(), dv.data()},
                     .workspace = scratch.view()},
                    nullptr);
  EXPECT_TRUE(SameBits(out, packed.out) && SameBits(lse, packed.lse));
  EXPECT_TRUE(SameBits(dq, Columns(packed.dqkv, row, 0, q_width, QueryRow(p.spec))));
  EXPECT_TRUE(SameBits(dk, Columns(packed.dqkv, row, q_width, k_width, KeyRow(p.spec))));
  EXPECT_TRUE(SameBits(dv, Columns(packed.dqkv, row, v_at, v_width, ValueRow(p.spec))));
}

TEST(AttentionTest, ViewsOfOtherTensorsGiveTheSameBits) {
  CheckViews(Make(4, 2, 8, 20, {3, 70, 1, 129}), 0);
  CheckViews(WithValues(Make(4, 2, 8, 20, {3, 70, 1, 129}), 6), 0);
  CheckViews(WithValues(Make(4, 2, 8, 20, {3, 70, 1, 129}), 6), 15);
}

TEST(AttentionTest, RotationTurnsTheGradientsBack) {
  const Floats scale = BuildQueryScale(0.5, 2, 80);
  for (const Problem& p :
       {Make(4, 2, 8, 0, {3, 70, 1, 20}), Make(3, 1, 10, 20, {40, 0, 17}), Make(4, 2, 8, 0, {})}) {
    const Floats qkv = RandomQkv(p), dout = RandomDout(p);
    const Result turned = Compute(p, qkv, dout);
    std::vector<int32_t> positions;
    for (const int32_t length : p.lengths) {
      for (int32_t i = 0; i < length; ++i) positions.push_back(i);
    }
    for (int flags = 0; flags < 8; ++flags) {
      RopeArgs rope{.tokens = p.tokens(), .positions = positions.data()};
      rope.spec = {.num_heads = p.spec.num_heads,
                   .num_kv_heads = p.spec.num_kv_heads,
                   .head_dim = p.spec.head_dim,
                   .rotated = (flags & 1) != 0 ? 6 : 0,
                   .interleaved = (flags & 2) != 0};
      if ((flags & 4) != 0) rope.query_scale = scale.data();
      const RopeTable table = BuildRopeTable({.rotated = RotatedElements(rope.spec)}, 80);
      rope.cos = table.cos.data();
      rope.sin = table.sin.data();
      const Result got = Compute(p, qkv, dout, &rope);
      Floats want = turned.dqkv;
      rope.qkv = want.data();
      RopeBackward(rope, nullptr);
      ASSERT_TRUE(SameBits(got.dqkv, want)) << p.tokens() << " tokens, flags " << flags;
      EXPECT_EQ(SameBits(want, turned.dqkv), p.tokens() == 0);
    }
  }
}

TEST(AttentionTest, RefusesDocumentsThatDoNotFit) {
  const Problem p = Make(2, 1, 8, 0, {4, 4});
  const Floats qkv = RandomQkv(p);
  Floats out(Size(8 * p.out_row())), lse(16);
  Scratch scratch(AttentionForwardWorkspaceBytes(p.spec, {.tokens = 8, .max_length = 4}));
  const auto run = [&](std::vector<int32_t> cu, int64_t max_length) {
    AttentionForward({.spec = p.spec,
                      .tokens = 8,
                      .documents = {.count = static_cast<int64_t>(cu.size()) - 1,
                                    .cu_seqlens = cu.data(),
                                    .max_length = max_length},
                      .in = PackedInputs(p.spec, qkv.data()),
                      .out = out.data(),
                      .lse = lse.data(),
                      .workspace = scratch.view()},
                     nullptr);
  };
  EXPECT_NO_THROW(run({0, 4, 8}, 4));
  EXPECT_THROW(run({0, 3, 8}, 4), std::invalid_argument);
  EXPECT_THROW(run({0, 4, 7}, 4), std::invalid_argument);
  EXPECT_THROW(run({0, 5, 4, 8}, 8), std::invalid_argument);
  EXPECT_FALSE(AttentionSupports({.num_heads = 3, .num_kv_heads = 2, .head_dim = 8}));
  EXPECT_FALSE(AttentionSupports({.num_heads = 2, .num_kv_heads = 2, .head_dim = 8, .window = -1}));
  EXPECT_FALSE(
      AttentionSupports({.num_heads = 2, .num_kv_heads = 2, .head_dim = 8, .value_dim = -8}));
  EXPECT_FALSE(AttentionSupports({.num_heads = 2,
                                  .num_kv_heads = 2,
                                  .head_dim = 8,
                                  .sinks = true,
                                  .sink_dtype = DType::kBFloat16}));
}

// The message of what `launch` throws; empty: nothing.
std::string Refusal(const std::function<void()>& launch) {
  try {
    launch();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(AttentionTest, NamesWhatIsMissing) {
  AttentionForwardArgs forward{.spec = Make(2, 1, 8, 0, {}).spec};
  const float sinks[2] = {};
  forward.sinks = sinks;
  EXPECT_EQ(Refusal([&] { AttentionForward(forward, nullptr); }),
            "Attention: sinks are given, but the spec has none");
  forward.sinks = nullptr;
  forward.spec.sinks = true;
  EXPECT_EQ(Refusal([&] { AttentionForward(forward, nullptr); }),
            "Attention: the spec has sinks, give those of its 2 heads");
  AttentionBackwardArgs backward{.spec = Make(2, 1, 8, 0, {}).spec};
  float gradient[2] = {};
  backward.sink_gradient = gradient;
  EXPECT_EQ(Refusal([&] { AttentionBackward(backward, nullptr); }),
            "Attention: a gradient of sinks is asked for, the spec has none");
  backward.sink_gradient = nullptr;
  backward.spec.value_dim = 6;
  const RopeArgs rotation;
  backward.rotation = &rotation;
  EXPECT_EQ(Refusal([&] { AttentionBackward(backward, nullptr); }),
            "Attention: gradients turn back where keys and values have the same width, these have "
            "8 and 6");
}

}  // namespace
}  // namespace attention_test
}  // namespace coxswain::kernels
